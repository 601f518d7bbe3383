#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// The row of each element, counted in the tile, as i32.
struct RowIds {
  static constexpr OpInfo info{.name = "row_ids",
                               .math = "i of a[i,j]",
                               .mosaic = "tpu.iota",
                               .arity = 1,
                               .max_ulp = 0,
                               .flops = 0};
  static constexpr bool kRows = true;
};
/// The column of each element, counted in the tile, as i32.
struct ColIds {
  static constexpr OpInfo info{.name = "col_ids",
                               .math = "j of a[i,j]",
                               .mosaic = "tpu.iota",
                               .arity = 1,
                               .max_ulp = 0,
                               .flops = 0};
  static constexpr bool kRows = false;
};

/// Of the shape of a tile, whose elements are not looked at. A block's place in its array is added:
/// row_ids(*x) + i * x.rows.
template <TileLike A>
TESSERA_FN auto row_ids(const A& like) {
  return A::Backend::template ids<RowIds>(like);
}
template <TileLike A>
TESSERA_FN auto col_ids(const A& like) {
  return A::Backend::template ids<ColIds>(like);
}

}  // namespace tessera
