// Reductions of rows and of columns. One order, on every backend of the exact profile:
//
//   lane[l] = the identity, combined with x[l], x[l + 32], x[l + 64], ... in increasing column
//   (row), l < 32, then lane[l] combined with lane[l + s] for s = 16, 8, 4, 2, 1; the result is
//   lane[0]; of more than 512 elements, each 512 are so reduced, and then what they gave, alike
//
// It is a warp's butterfly, a few vector registers on a CPU, and independent of SIMD width; a long
// row is many short chains, which several warps of a GPU compute at a time. A row (column) of fewer
// than 32 elements leaves the identity in its other lanes. On a GPU a column is spread over warps:
// a kernel that reduces columns says `static constexpr bool exchanges = true;`.
#pragma once

#include <limits>

#include "sim/body/reduce_order.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/min.hpp"

namespace tessera {

/// Sum of each row, from +0: (R, C) to (R, 1).
struct RowSum {
  static constexpr OpInfo info{.name = "row_sum",
                               .math = "sum_j a[i,j]",
                               .mosaic = "vector.multi_reduction",
                               .arity = 1,
                               .max_ulp = 0.5};
  using Combine = Add;
  template <class T>
  TESSERA_FN static constexpr T identity() {
    return T(0);
  }
};

/// Largest element of each row, NaN if the row has one: (R, C) to (R, 1).
struct RowMax {
  static constexpr OpInfo info{.name = "row_max",
                               .math = "max_j a[i,j]",
                               .mosaic = "vector.multi_reduction",
                               .arity = 1,
                               .max_ulp = 0};
  using Combine = Maximum;
  template <class T>
  TESSERA_FN static constexpr T identity() {
    if constexpr (std::is_floating_point_v<T>)
      return -std::numeric_limits<T>::infinity();
    else
      return std::numeric_limits<T>::lowest();
  }
};

/// Smallest element of each row, NaN if the row has one: (R, C) to (R, 1).
struct RowMin {
  static constexpr OpInfo info{.name = "row_min",
                               .math = "min_j a[i,j]",
                               .mosaic = "vector.multi_reduction",
                               .arity = 1,
                               .max_ulp = 0};
  using Combine = Minimum;
  template <class T>
  TESSERA_FN static constexpr T identity() {
    if constexpr (std::is_floating_point_v<T>)
      return std::numeric_limits<T>::infinity();
    else
      return std::numeric_limits<T>::max();
  }
};

/// Sum of each column, from +0: (R, C) to (1, C).
struct ColSum : RowSum {
  static constexpr OpInfo info{.name = "col_sum",
                               .math = "sum_i a[i,j]",
                               .mosaic = "vector.multi_reduction",
                               .arity = 1,
                               .max_ulp = 0.5};
  using OfRows = RowSum;
};
/// Largest element of each column, NaN if the column has one: (R, C) to (1, C).
struct ColMax : RowMax {
  static constexpr OpInfo info{.name = "col_max",
                               .math = "max_i a[i,j]",
                               .mosaic = "vector.multi_reduction",
                               .arity = 1,
                               .max_ulp = 0};
  using OfRows = RowMax;
};
/// Smallest element of each column, NaN if the column has one: (R, C) to (1, C).
struct ColMin : RowMin {
  static constexpr OpInfo info{.name = "col_min",
                               .math = "min_i a[i,j]",
                               .mosaic = "vector.multi_reduction",
                               .arity = 1,
                               .max_ulp = 0};
  using OfRows = RowMin;
};

template <TileLike A>
TESSERA_FN auto row_sum(const A& a) {
  return A::Backend::template reduce_rows<RowSum>(a);
}
template <TileLike A>
TESSERA_FN auto row_max(const A& a) {
  return A::Backend::template reduce_rows<RowMax>(a);
}
template <TileLike A>
TESSERA_FN auto row_min(const A& a) {
  return A::Backend::template reduce_rows<RowMin>(a);
}

template <TileLike A>
TESSERA_FN auto col_sum(const A& a) {
  return A::Backend::template reduce_cols<ColSum>(a);
}
template <TileLike A>
TESSERA_FN auto col_max(const A& a) {
  return A::Backend::template reduce_cols<ColMax>(a);
}
template <TileLike A>
TESSERA_FN auto col_min(const A& a) {
  return A::Backend::template reduce_cols<ColMin>(a);
}

}  // namespace tessera
