#include "program/unit_wide.hpp"

#include <algorithm>
#include <string>

namespace tessera::program {

std::optional<WideProduct> wide_product(const Program& program, const UnitOp& op,
                                        const UnitCosts& costs) {
  WideProduct p{};
  std::int64_t quarters = 0;
  std::int64_t passes = 0;
  std::int64_t pairs = 0;
  bool of_words = false;
  bool of_left = false;  // words, by weights that are none
  bool turned = false;
  for (const auto& [row, n] : op.rows) {
    const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
    if (!name.starts_with("tpu.matmul")) continue;
    const bool wide = name.find(" wide") != name.npos;
    const bool of_parts = name.find(" highest") != name.npos;
    if (name.starts_with("tpu.matmul pass")) (wide ? p.pops : passes) += n;
    if (name.starts_with("tpu.matmul sum")) p.results += n;
    if (name.starts_with("tpu.matmul apart")) p.apart = true;
    if (of_parts && name.starts_with("tpu.matmul left")) p.split_left += n;
    if (name == "tpu.matmul pairs f32 bf16") pairs += n;
    of_left = of_left || name == "tpu.matmul sum f32 bf16";
    if (of_parts) p.splits = true;
    if (of_parts && name.starts_with("tpu.matmul rows")) p.rows += n;
    if (!name.starts_with("tpu.matmul weights")) continue;
    if (!wide) (of_parts ? p.split_right : quarters) += n;
    turned = turned || name.ends_with(" transposed");
    for (const std::string kind : {" bf16", " f32", " f32 highest"}) {
      const std::string pushed = "tpu.matmul weights" + kind + " wide";
      if (name != pushed && name != pushed + " transposed") continue;
      pairs += n;
      of_words = kind != " bf16";
    }
  }
  if ((quarters == 0 && p.rows == 0) || passes == 0 || p.results == 0 || p.pops == 0)
    return std::nullopt;
  constexpr std::int64_t kHalves = 2;  // of a tile
  p.deep = std::max<std::int64_t>(1, passes / p.results);
  if (p.splits) {
    const std::int64_t across = std::max<std::int64_t>(1, p.results / p.rows);
    p.tiles = p.tiles_deep() * ((across + 1) / 2);
  } else {
    p.rows = std::max<std::int64_t>(1, passes / quarters);
    p.tiles = std::max<std::int64_t>(1, (p.pops + kHalves * p.rows - 1) / (kHalves * p.rows));
    // Of rows that are 0 there are no tiles.
    const std::int64_t columns = std::max<std::int64_t>(1, (p.results / p.rows + 1) / 2);
    p.deep = std::min(p.deep, kHalves * std::max<std::int64_t>(1, p.tiles / columns));
  }
  p.packs = of_words && costs.schedules && costs.schedules->packs_words;
  const std::int64_t of_each_tile = pairs / p.tiles;
  p.pushes = p.packs ? (of_each_tile + 1) / 2 : of_each_tile;
  p.rows_alone = p.splits && p.pops == p.rows * p.tiles && p.rows % 2 == 1;
  if (p.rows_alone) p.pops *= 2;
  p.together = of_words || of_left ? 2 : 4;
  // From one push to the next of the same unit, by listings.
  p.push = (of_words && !p.packs ? 2 : 4) * (turned ? 2 : 1);
  return p;
}

}  // namespace tessera::program
