#include "program/unit_costs.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "program/embedded_unit_costs.hpp"

namespace tessera::program {

namespace {

using Json = nlohmann::json;

UnitCosts read(std::string_view text) {
  const Json json = Json::parse(text);
  UnitCosts c;
  c.chip = json.at("chip");
  c.compiler = json.at("compiler");
  const auto slots = [](const Json& from) {
    std::array<double, kCoreUnits> all{};
    for (std::size_t u = 0; u < kCoreUnits; ++u) all[u] = from.value(kCoreUnitNames[u], 0.);
    return all;
  };
  c.capacity = slots(json.at("capacity"));
  for (const auto& [row, cost] : json.at("rows").items())
    c.rows.emplace(row, UnitCost{cost.value("latency", 0.), slots(cost)});
  const Json& fixed = json.at("cycles");
  c.launch = fixed.at("launch");
  c.operand = fixed.at("operand");
  c.step = fixed.at("step");
  c.window = fixed.at("window");
  c.map = fixed.at("map");
  c.block = fixed.at("block");
  c.jump = fixed.at("jump");
  c.stretch = fixed.at("stretch");
  c.path = fixed.at("path");
  c.least = json.at("held_out").at("least");
  c.most = json.at("held_out").at("most");
  return c;
}

/// First steps of the stretches that run without a branch, the first of all among them.
std::set<std::size_t> beginnings(const Code& code) {
  std::set<std::size_t> first{0};
  for (std::size_t i = 0; i < code.notes.size(); ++i) {
    if (!code.notes[i].target) continue;
    first.insert(i + 1);
    first.insert(*code.notes[i].target);
  }
  return first;
}

/// Of one stretch.
struct Stretch {
  std::size_t begin = 0;
  bool branches = false;
  std::vector<const UnitOp*> ops;
};

std::vector<Stretch> stretches(const Code& code) {
  const std::set<std::size_t> first = beginnings(code);
  std::vector<Stretch> all;
  for (const std::size_t begin : first) {
    if (begin < code.steps.size() || begin == 0) all.push_back({begin, false, {}});
  }
  const auto of = [&](std::size_t step) -> Stretch& {
    const auto next = std::ranges::upper_bound(all, step, {}, &Stretch::begin);
    return *std::prev(next);
  };
  for (const UnitOp& op : code.units) of(op.step).ops.push_back(&op);
  for (std::size_t i = 0; i < code.notes.size(); ++i) {
    if (code.notes[i].target) of(i).branches = true;
  }
  return all;
}

}  // namespace

const UnitCosts* unit_costs(const std::string& chip) {
  static const std::map<std::string, UnitCosts> all = [] {
    std::map<std::string, UnitCosts> read_ones;
    for (const EmbeddedUnitCosts& e : embedded_unit_costs()) {
      UnitCosts c = read(e.json);
      const std::string name = c.chip;
      read_ones.emplace(name, std::move(c));
    }
    return read_ones;
  }();
  const auto it = all.find(chip);
  return it == all.end() ? nullptr : &it->second;
}

CountedCode counted(const Program& program, const Code& code, const UnitCosts& costs) {
  std::vector<const UnitCost*> rows;
  CountedCode c;
  for (const std::string& row : program.unit_rows) {
    const auto it = costs.rows.find(row);
    rows.push_back(it == costs.rows.end() ? nullptr : &it->second);
    if (it == costs.rows.end()) c.unmeasured.push_back(row);
  }
  c.at.resize(code.steps.size());
  for (const Stretch& s : stretches(code)) {
    if (s.begin >= c.at.size()) continue;
    std::array<double, kCoreUnits> slots{};
    std::unordered_map<int, double> done;  // when a value is there
    double path = 0;
    for (const UnitOp* op : s.ops) {
      double at = 0;
      for (const int v : op->reads) {
        const auto it = done.find(v);
        if (it != done.end()) at = std::max(at, it->second);
      }
      for (const auto& [row, times] : op->rows) {
        const UnitCost* cost = rows[static_cast<std::size_t>(row)];
        if (cost == nullptr) continue;
        at += cost->latency;
        for (std::size_t u = 0; u < kCoreUnits; ++u)
          slots[u] += static_cast<double>(times) * cost->slots[u];
      }
      for (const int v : op->makes) done[v] = at;
      path = std::max(path, at);
    }
    double squares = 0;
    for (std::size_t u = 0; u < kCoreUnits; ++u) {
      if (costs.capacity[u] > 0) squares += std::pow(slots[u] / costs.capacity[u], 2);
    }
    double cycles =
        costs.stretch * std::sqrt(squares) + costs.path * path + (s.branches ? costs.jump : 0);
    if (!s.ops.empty()) cycles += costs.block;
    CoreUse& use = c.at[s.begin];
    use.cycles = std::llround(cycles);
    for (std::size_t u = 0; u < kCoreUnits; ++u) use.slots[u] = std::llround(slots[u]);
  }
  return c;
}

namespace {

/// Of windows that the pipeline brings: how many, how many of them move, what their index maps
/// load.
struct Windows {
  int all = 0;
  int moving = 0;
  std::int64_t map_loads = 0;
};

Windows windows_of(const Program& program) {
  Windows found;
  for (const Window& w : program.operands) {
    if (w.any || w.smem || w.semaphores) continue;
    ++found.all;
    if (w.whole || std::ranges::count(w.uses, true) == 0) continue;
    ++found.moving;
    for (const UnitOp& op : w.transform.units) {
      found.map_loads += std::ranges::count_if(op.rows, [&](const auto& row) {
        return program.unit_rows[static_cast<std::size_t>(row.first)] == "memref.load";
      });
    }
  }
  return found;
}

}  // namespace

PipelineCycles pipeline_cycles(const Program& program, std::int64_t steps, const UnitCosts& costs) {
  const Windows w = windows_of(program);
  if (steps <= 1) return {std::llround(costs.launch + w.all * costs.operand), 0};
  const double step =
      costs.step + w.moving * costs.window + static_cast<double>(w.map_loads) * costs.map;
  return {std::llround(costs.launch + 2 * step), std::llround(step)};
}

std::string units_json(const Program& program) {
  Json blocks = Json::array();
  for (const Stretch& s : stretches(program.main)) {
    Json ops = Json::array();
    for (const UnitOp* op : s.ops) {
      Json rows = Json::array();
      for (const auto& [row, times] : op->rows) rows.push_back({row, times});
      ops.push_back({{"reads", op->reads}, {"makes", op->makes}, {"rows", rows}});
    }
    blocks.push_back({{"step", s.begin}, {"branches", s.branches}, {"ops", ops}});
  }
  return Json{{"kernel", program.name},
              {"windows", windows_of(program).all},
              {"moving", windows_of(program).moving},
              {"map_loads", windows_of(program).map_loads},
              {"rows", program.unit_rows},
              {"blocks", blocks}}
             .dump() +
         "\n";
}

}  // namespace tessera::program
