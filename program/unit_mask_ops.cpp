#include "program/unit_mask_ops.hpp"

#include <unordered_map>

namespace tessera::program {

namespace {

bool makes_masks_of_words(const std::string& row) {
  return row == "arith.cmpi i32" || row == "arith.cmpf f32" || joins_masks(row);
}

bool selects_halves(const std::string& row) {
  return row == "arith.select bf16" || row == "arith.select i16";
}

}  // namespace

std::vector<MaskOps> mask_ops(const Program& program, const std::vector<const UnitOp*>& ops,
                              const UnitCosts& costs) {
  std::vector<MaskOps> all(ops.size());
  std::unordered_map<int, std::int64_t> masks;  // of words, which nobody packed: registers
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const UnitOp& op = *ops[i];
    for (const auto& [row, times] : op.rows) {
      const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
      if (joins_masks(name)) all[i].joined += times;
      if (makes_masks_of_words(name))
        for (const int v : op.makes) masks[v] = times;
      if (costs.knows_narrow_masks || !selects_halves(name) || op.reads.empty()) continue;
      if (const auto it = masks.find(op.reads[0]); it != masks.end()) {
        all[i].packed = it->second;
        masks.erase(it);
      }
    }
  }
  return all;
}

}  // namespace tessera::program
