// Why products of 16-bit floats are not on tensor cores (computing_of in sim/body/cta.hpp).
#pragma once

#include "sim/body/cta.hpp"

namespace tessera::cta {

struct Fall {
  const char* why = nullptr;  ///< of an operand, or of the kernel; none where there is no fall
  int operand = -1;
};

/// Of a kernel that has 16-bit floats and an accumulator wider than a column: what it multiplies,
/// if it multiplies.
constexpr Fall fall_from_tensor_cores(const Operands& operands) {
  if (computing_of(operands).tensor_cores || !operands.multiplies) return {};
  bool halves = false;
  bool sums = false;
  bool for_wgmma = true;  // but for operands
  int unpanelled = -1;    // an operand that wgmma does not take
  Fall fall;
  for (int i = 0; i < operands.size; ++i) {
    const Operand& op = operands.first[i];
    const bool read = op.role == Role::in || op.role == Role::vmem;
    halves = halves || (read && (op.dtype == DType::bf16 || op.dtype == DType::f16));
    const bool sum = op.role == Role::accum && op.cols > 1;
    sums = sums || sum;
    for_wgmma = for_wgmma && (!sum || (op.rows % 64 == 0 && op.cols % 64 == 0));
    if (unpanelled < 0 && !for_tensor_cores(op) && !op.tile().panelled) unpanelled = i;
    if (fall.why != nullptr) continue;
    if (sum && op.rows % 8 != 0) fall = {"its rows are no multiple of 8", i};
    if (sum && op.cols % 8 != 0) fall = {"its columns are no multiple of 8", i};
    if (!for_mma_sync(op)) fall = {"its elements are narrower than 16 bits", i};
  }
  if (!halves || !sums) return {};
  if (operands.peers) return {"devices of a mesh multiply by FMA chains"};
  if (fall.why != nullptr) return fall;
  if (for_wgmma && unpanelled >= 0) {
    return {
        "its rows are no multiple of 64 elements, which wgmma takes, and by mma.sync a thread "
        "would hold more than 96 elements of a tile",
        unpanelled};
  }
  return {"a thread would hold more than 96 elements of a tile", -1};
}

}  // namespace tessera::cta
