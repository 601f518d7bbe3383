// Where a block lies in its array.
#pragma once

#include "sim/pipeline/plan.hpp"

namespace tessera {

/// Calls f(element offset in the array, element offset in the block, run length) for every run of
/// the in-bounds part of a block.
template <class F>
void for_each_run(const OperandPlan& op, const std::int64_t* index, const Shape& in_bounds, F&& f) {
  Shape tile_strides = op.block;
  std::int64_t step = 1;
  for (int d = op.block.rank - 1; d >= 0; --d) {
    tile_strides[d] = op.squeezed[static_cast<std::size_t>(d)] ? 0 : step;
    if (!op.squeezed[static_cast<std::size_t>(d)]) step *= op.block[d];
  }
  const int last = op.block.rank - 1;
  std::int64_t from = op.offset(index);
  std::int64_t to = 0;
  if (op.by_element) {
    if (in_bounds.elems() == 0) return;
    const Shape before = op.outside_before(index);
    for (int d = 0; d <= last; ++d) to += before[d] * tile_strides[d];
  }
  Shape at = in_bounds;
  for (int d = 0; d < at.rank; ++d) at[d] = 0;
  for (;;) {
    f(from, to, in_bounds[last]);
    int d = last - 1;
    for (; d >= 0; --d) {
      from += op.strides[d];
      to += tile_strides[d];
      if (++at[d] < in_bounds[d]) break;
      from -= op.strides[d] * in_bounds[d];
      to -= tile_strides[d] * in_bounds[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace tessera
