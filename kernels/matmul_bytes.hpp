// Bytes of a blocked matrix product, which several kernels share.
#pragma once

#include "sim/body/kernel.hpp"

namespace tessera::kernels {

/// HBM reads of the operands of an (m, k) x (k, n) product on the grid (i, j, k), k innermost. The
/// left block (i, k) is brought at every step, for all n / bn columns of blocks, unless k has one
/// block: then it stays while j runs (on a device that keeps blocks across cells). The right block
/// (k, j) is brought at every step unless k and j have one block each: then it stays while i runs.
struct MatmulReads {
  std::int64_t left;   ///< elements
  std::int64_t right;  ///< elements
};
constexpr MatmulReads matmul_reads(int m, int n, int k, int bm, int bn, int bk, Target target) {
  const bool one_k = ceil_div(k, bk) == 1;
  const bool one_j = ceil_div(n, bn) == 1;
  const std::int64_t left_sweeps = one_k && target.keeps_blocks ? 1 : ceil_div(n, bn);
  const std::int64_t right_sweeps = one_k && one_j && target.keeps_blocks ? 1 : ceil_div(m, bm);
  return {left_sweeps * m * k, right_sweeps * k * n};
}

}  // namespace tessera::kernels
