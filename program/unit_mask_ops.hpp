// What joins masks of registers and what packs those of words for a select of 16 bits: a place of a
// TPU core's bundle of its own, one a bundle on all generations (114 of 114 bundles of
// `grouped_matmul`'s listings that have any, five generations).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "program/program.hpp"
#include "program/unit_costs.hpp"

namespace tessera::program {

/// Whether a row of costs is of ops that do.
inline bool joins_masks(const std::string& row) { return row == "arith.andi bool"; }

struct MaskOps {
  std::int64_t joined = 0;
  std::int64_t packed = 0;
};

/// Of each op of a stretch. A mask that comes from elsewhere, or is packed already, is not packed.
std::vector<MaskOps> mask_ops(const Program& program, const std::vector<const UnitOp*>& ops,
                              const UnitCosts& costs);

}  // namespace tessera::program
