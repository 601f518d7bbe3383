#include "program/unit_products.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <type_traits>

#include "program/unit_placement.hpp"

namespace tessera::program {

std::ptrdiff_t shared_product(const Program& program, const std::vector<const UnitOp*>& ops) {
  const auto times = [&](const UnitOp& op, const auto& is) {
    std::int64_t sum = 0;
    for (const auto& [row, n] : op.rows)
      sum += is(program.unit_rows[static_cast<std::size_t>(row)]) ? n : 0;
    return sum;
  };
  const auto begins = [](std::string_view prefix) {
    return [prefix](const std::string& row) { return row.starts_with(prefix); };
  };
  const auto pushed = [](const std::string& row) { return row.find(" wide") != row.npos; };
  const auto weights = begins("tpu.matmul weights f32 highest");
  std::int64_t products = 0;
  std::ptrdiff_t last = -1;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (times(*ops[i], begins("tpu.matmul sum")) == 0) continue;
    ++products;
    // What is pushed in pairs is half as much.
    const auto is_pushed = [&](const std::string& row) { return weights(row) && pushed(row); };
    const std::int64_t all = times(*ops[i], weights);
    if (all > 0 && all == 2 * times(*ops[i], is_pushed)) last = static_cast<std::ptrdiff_t>(i);
  }
  return products % 2 == 1 ? last : -1;
}

TilesOfWeights tiles_of_weights(const Program& program, const UnitOp& op) {
  TilesOfWeights found;
  std::int64_t pairs = 0;
  for (const auto& [row, n] : op.rows) {
    const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
    for (const std::string kind : {" bf16", " f32"}) {
      const std::string weights = "tpu.matmul weights" + kind;
      if (name == weights || name == weights + " transposed")
        found.tiles += n;
      else if (name == weights + " wide" || name == weights + " wide transposed")
        pairs += n;
      else
        continue;
      found.of_words = kind == " f32";
    }
  }
  const std::int64_t most = found.of_words ? 16 : 8;  // of 8 rows, or of 16
  if (found.tiles > 0)
    found.registers = std::min(most, (pairs + (found.tiles + 1) / 2 - 1) / ((found.tiles + 1) / 2));
  return found;
}

TilesOfWeights rounds_of_weights(const Program& program, const UnitOp& op) {
  constexpr std::string_view kPass = "tpu.matmul pass f32 highest";
  TilesOfWeights found;
  std::int64_t passes = 0;
  std::int64_t rows = 0;
  for (const auto& [row, n] : op.rows) {
    const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
    if (name == kPass) passes += n;
    if (name == "tpu.matmul rows f32 highest") rows += n;
    if (name == "tpu.matmul weights f32 highest" ||
        name == "tpu.matmul weights f32 highest transposed")
      found.registers += n;
  }
  const std::int64_t tiles = rows > 0 ? passes / rows : 0;
  if (tiles == 0 || found.registers == 0) return {};
  found.tiles = tiles * static_cast<std::int64_t>(WideProduct::kSplitRounds);
  found.registers = std::max<std::int64_t>(1, found.registers / tiles);  // of one of zeros, too
  found.of_words = true;
  return found;
}

bool streams_rows(const std::string& row) {
  return row == "tpu.matmul pass bf16" || row == "tpu.matmul pass f32" ||
         row == "tpu.matmul pass bf16 f32" || row == "tpu.matmul pass f32 bf16";
}

bool turns_left(const Program& program, const UnitOp& op) {
  return std::ranges::any_of(op.rows, [&](const auto& row) {
    const std::string& name = program.unit_rows[static_cast<std::size_t>(row.first)];
    return name.starts_with("tpu.matmul left") && name.ends_with(" transposed");
  });
}

bool multiplies_matrices(const Program& program, const UnitOp& op) {
  return std::ranges::any_of(op.rows, [&](const auto& row) {
    return program.unit_rows[static_cast<std::size_t>(row.first)].starts_with("tpu.matmul");
  });
}

double units_of_tiles(std::int64_t of_phase, std::int64_t of_stretch, double units) {
  if (of_phase < 2 || of_stretch < 1) return units;
  const double each = std::max(1., std::floor(units / static_cast<double>(of_stretch)));
  return std::min(units, each * static_cast<double>(of_phase));
}

std::vector<std::vector<MatrixUnits>> tiles_on_units(const Program& program,
                                                     const std::vector<const UnitOp*>& ops,
                                                     const std::vector<const UnitCost*>& rows) {
  constexpr auto kMatrix = static_cast<std::size_t>(CoreUnit::mxu);
  std::vector<TilesToPlace> tiles(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::int64_t n = tiles_of_weights(program, *ops[i]).tiles;
    double cycles = 0;
    for (const auto& [row, times] : ops[i]->rows) {
      const UnitCost* cost = rows[static_cast<std::size_t>(row)];
      if (cost != nullptr) cycles += static_cast<double>(times) * cost->slots[kMatrix];
    }
    if (n > 0 && cycles > 0) tiles[i] = {n, cycles / static_cast<double>(n)};
  }
  return dealt_out(tiles, kMostMatrixUnits);
}

std::vector<PlacedProducts> placed_products(const Program& program,
                                            const std::vector<Stretch>& stretches,
                                            const std::vector<const UnitCost*>& rows,
                                            const UnitCosts& costs) {
  const double units = costs.capacity[static_cast<std::size_t>(CoreUnit::mxu)];
  std::map<int, std::vector<const UnitOp*>> ops_of;  // by region
  for (const Stretch& s : stretches) {
    std::vector<const UnitOp*>& of = ops_of[s.region];
    of.insert(of.end(), s.ops.begin(), s.ops.end());
  }
  std::map<int, PlacedProducts> all;
  for (const auto& [region, ops] : ops_of) {
    PlacedProducts& p = all[region];
    if (units == kMostMatrixUnits) p.tiles = tiles_on_units(program, ops, rows);
    if (units == 2) p.parts = placed(program, ops, costs);
    const auto multiplies = [&](const UnitOp* op) { return multiplies_matrices(program, *op); };
    if (units == kMostMatrixUnits && std::ranges::count_if(ops, multiplies) == 1) {
      const auto at = std::ranges::find_if(ops, multiplies) - ops.begin();
      const auto i = static_cast<std::size_t>(at);
      if (const std::int64_t rounds = rounds_of_weights(program, *ops[i]).tiles; rounds > 0) {
        p.one_splits = true;
        std::vector<TilesToPlace> tiles(ops.size());
        tiles[i] = {rounds, 1};
        p.tiles = dealt_out(tiles, kMostMatrixUnits);
      }
    }
    for (const UnitOp* op : ops) {
      const std::int64_t tiles = tiles_of_weights(program, *op).tiles;
      p.products += tiles > 0 ? 1 : 0;
      p.all_tiles += tiles;
      p.all_counted = p.all_counted && (tiles > 0 || !multiplies_matrices(program, *op));
    }
    if (p.products < 2) p.all_tiles = 0;
  }
  std::vector<PlacedProducts> found;
  std::map<int, std::size_t> done;  // ops
  for (const Stretch& s : stretches) {
    const PlacedProducts& p = all.at(s.region);
    std::size_t& begin = done[s.region];
    const auto part_of = [&](const auto& of) {
      if (of.empty()) return std::remove_cvref_t<decltype(of)>{};
      const auto first = of.begin() + static_cast<std::ptrdiff_t>(begin);
      return std::remove_cvref_t<decltype(of)>(first, first + std::ssize(s.ops));
    };
    found.push_back(
        {part_of(p.tiles), part_of(p.parts), p.products, p.all_tiles, p.all_counted, p.one_splits});
    if (found.back().tiles.empty()) found.back().tiles.resize(s.ops.size());
    begin += s.ops.size();
  }
  return found;
}

std::optional<UnitSchedule::Product> product_of_tiles(const Program& program, const UnitOp& op,
                                                      const std::vector<MatrixUnits>& tiles_on,
                                                      const UnitSchedules& schedules) {
  TilesOfWeights of = tiles_of_weights(program, op);
  const bool splits = of.tiles == 0;
  if (splits) of = rounds_of_weights(program, op);
  if (of.tiles == 0 || tiles_on.empty()) return std::nullopt;
  const std::string kind = splits ? " f32 highest" : of.of_words ? " f32" : " bf16";
  std::int64_t passes = 0;
  std::int64_t sums = 0;
  bool turned = false;
  for (const auto& [row, n] : op.rows) {
    const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
    turned = turned || name == "tpu.matmul weights" + kind + " transposed";
    if (name == "tpu.matmul pass" + kind) passes += n;
    if (name == "tpu.matmul sum" + kind) sums += n;
  }
  if (passes == 0 || sums == 0) return std::nullopt;
  // Cycles from one push to the next of the same unit, by listings.
  const double plain = of.of_words ? schedules.push_words : 4;
  const double as_turned = of.of_words ? schedules.push_words_turned : 8;
  return UnitSchedule::Product{.tiles = tiles_on,
                               .deep = passes / sums,
                               .results = sums,
                               .pushed = of.registers,
                               .push = turned ? as_turned : plain,
                               .of_a_pass = of.of_words ? 1 : 2,
                               .splits = splits};
}

}  // namespace tessera::program
