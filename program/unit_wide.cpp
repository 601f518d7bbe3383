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
    if (!name.starts_with("tpu.matmul") || name.find(" highest") != name.npos) continue;
    const bool wide = name.find(" wide") != name.npos;
    if (name.starts_with("tpu.matmul pass")) (wide ? p.pops : passes) += n;
    if (name.starts_with("tpu.matmul sum")) p.results += n;
    if (name == "tpu.matmul pairs f32 bf16") pairs += n;
    of_left = of_left || name == "tpu.matmul sum f32 bf16";
    if (!name.starts_with("tpu.matmul weights")) continue;
    if (!wide) quarters += n;
    turned = turned || name.ends_with(" transposed");
    for (const std::string kind : {" bf16", " f32"}) {
      const std::string pushed = "tpu.matmul weights" + kind + " wide";
      if (name != pushed && name != pushed + " transposed") continue;
      pairs += n;
      of_words = kind == " f32";
    }
  }
  if (quarters == 0 || passes == 0 || p.results == 0 || p.pops == 0) return std::nullopt;
  constexpr std::int64_t kHalves = 2;  // of a tile
  p.deep = std::max<std::int64_t>(1, passes / p.results);
  p.rows = std::max<std::int64_t>(1, passes / quarters);
  p.tiles = std::max<std::int64_t>(1, (p.pops + kHalves * p.rows - 1) / (kHalves * p.rows));
  p.packs = of_words && costs.schedules && costs.schedules->packs_words;
  p.pushes = pairs / p.tiles / (p.packs ? 2 : 1);
  p.together = of_words || of_left ? 2 : 4;
  // From one push to the next of the same unit, by listings.
  p.push = (of_words && !p.packs ? 2 : 4) * (turned ? 2 : 1);
  return p;
}

}  // namespace tessera::program
