#include "program/units_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "program/unit_phases.hpp"
#include "program/unit_pipeline.hpp"
#include "program/unit_pressure.hpp"
#include "program/unit_stretches.hpp"

namespace tessera::program {

namespace {

using Json = nlohmann::json;

/// One of kUnitKinds.
std::string kind_of(const Program& program) {
  const auto has = [&](const auto& is) {
    return std::ranges::any_of(program.main.units, [&](const UnitOp& op) {
      return std::ranges::any_of(op.rows, [&](const auto& row) {
        return is(program.unit_rows[static_cast<std::size_t>(row.first)]);
      });
    });
  };
  if (has([](const std::string& row) { return row == "tpu.enqueue_dma"; })) return "copies";
  if (has([](const std::string& row) { return row.starts_with("tpu.matmul"); })) return "products";
  const bool moves = has([](const std::string& row) {
    for (const char* op : {"vector.shape_cast", "tpu.transpose", "tpu.concatenate", "tpu.repeat",
                           "tpu.dynamic_rotate", "tpu.dynamic_gather", "vector.extract_strided"})
      if (row.starts_with(op)) return true;
    const bool memory = row.starts_with("load ") || row.starts_with("store ");
    return memory && row.find(' ', row.find(' ') + 1) != std::string::npos;
  });
  return moves ? "moves" : "plain";
}

}  // namespace

std::string held_out_kind(const Program& program, std::int64_t steps) {
  const bool stretch = steps <= 1 && stretches(program.main, false, {}).size() == 1;
  return (stretch ? "stretch " : "module ") + kind_of(program);
}

namespace {

Json blocks_of(const Program& program, bool knows_narrow_masks) {
  Json blocks = Json::array();
  for (const Stretch& s : stretches(program.main, knows_narrow_masks, {})) {
    Json ops = Json::array();
    const Phases phases(program, s.ops);
    const Pressure pressure(program, s.ops, phases, {});
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      const UnitOp* const op = s.ops[i];
      Json rows = Json::array();
      for (const auto& [row, times] : op->rows) rows.push_back({row, times});
      Json one{{"reads", op->reads}, {"makes", op->makes}, {"rows", rows}};
      if (pressure.too_many(i).all() > 0) one["spills"] = pressure.too_many(i).all();
      ops.push_back(std::move(one));
    }
    blocks.push_back({{"step", s.begin}, {"branches", s.branches}, {"ops", ops}});
  }
  return blocks;
}

Json moves_of(const PipelineWindows& w) {
  return {{"moving", w.moving},       {"rates", w.rates},     {"still", w.still},
          {"dims", w.dims},           {"indices", w.indices}, {"map_loads", w.map_loads},
          {"checked", w.checked},     {"words", w.words},     {"map_ops", w.map_ops},
          {"map_again", w.map_again}, {"chosen", w.chosen}};
}

}  // namespace

std::string units_json(const Program& program) {
  const PipelineWindows w = windows_of(program, {}, {});
  Json bounds = Json::array();
  for (const Window& each : program.operands)
    bounds.push_back(each.whole ? std::vector<std::int64_t>{} : each.bounds);
  Json all{{"kernel", program.name},
           {"grid", program.grid},
           {"windows", w.all},
           {"bounds", bounds},
           {"semaphores", semaphores_of(program)},
           {"of", kind_of(program)},
           {"rows", program.unit_rows},
           {"blocks", blocks_of(program, false)}};
  all.update(moves_of(w));
  const SharedGrid shared = shared_grid(program, program.grid, 2);
  if (shared.of_one_step >= 0 || shared.numbered > 0)
    all["moves_of_two_cores"] = moves_of(windows_of(program, {}, shared));
  if (!program.main.units_of_known_narrow_masks.empty())
    all["blocks_of_known_narrow_masks"] = blocks_of(program, true);
  return all.dump() + "\n";
}

}  // namespace tessera::program
