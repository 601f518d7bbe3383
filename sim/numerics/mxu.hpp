// f32 operands of dots on a TPU's matrix unit, which multiplies bf16 and adds in f32.
//
// x is the sum of parts: its bf16 rounding, that of what remains, and so on. One pass multiplies
// the first parts. Three add first by second, six also first by third and second by second
// (Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
// higher-precision computations", ARITH 2019; jax.lax.DotAlgorithmPreset.BF16_BF16_F32, _X3, _X6).
// The terms of each k are added smallest first, k in increasing order: like every f32 dot here, the
// bits do not depend on how k is cut into blocks. A TPU's own order of additions is not published.
// An operand whose first part is no finite number is in the last pass alone, as XLA's masks have
// it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "memory_model/dtype.hpp"
#include "sim/numerics/dot.hpp"

namespace tessera::mxu {

/// Which part of an operand each pass takes, smallest products first.
struct Passes {
  int count;
  std::array<int, 6> of_left;
  std::array<int, 6> of_right;
};
/// Of 1, 3 or 6.
const Passes& passes(int count);

inline constexpr int kMostParts = 3;
/// The parts of an operand in row-major order, each k repeated for every pass: rows x (k passes).
Operand2d<bf16> expand_left(std::vector<bf16>& buffer, Operand2d<float> a, int rows, int k,
                            const Passes& passes);
/// (k passes) x cols.
Operand2d<bf16> expand_right(std::vector<bf16>& buffer, Operand2d<float> b, int k, int cols,
                             const Passes& passes);

}  // namespace tessera::mxu
