// Inputs whose rows the GPU moves apart before a kernel begins.
//
// The copy engine takes rows that begin at multiples of 16 bytes. Products read an input again and
// again: one with other rows is copied first, in device memory, to rows that it takes. What is read
// once is not: threads bring it, and shift what they read (cuda/fetch.hpp).
#pragma once

#include "sim/body/cta.hpp"

namespace tessera::cta {

/// True of a kernel with products.
constexpr bool spreads(const Operands& operands) {
  bool sums = false;
  if (!operands.multiplies) return false;
  for (const Operand& op : operands) sums = sums || (op.role == Role::accum && op.cols > 1);
  return sums && !operands.peers;
}

/// An array with its rows at multiples of 16 bytes.
constexpr Shape spread_of(Shape array, DType dtype) {
  const std::int64_t unit = 16 * 8 / bit_width(dtype);
  if (array.rank > 0) array[array.rank - 1] = round_up(array[array.rank - 1], unit);
  return array;
}

}  // namespace tessera::cta
