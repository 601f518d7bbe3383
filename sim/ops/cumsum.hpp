// Running sums. The order, in every build: passes s = 1, 2, 4, ...; in each, element i of the pass
// before is added to element i + s (x[i] + x[i - s], rounded once). Made of other ops: a rotation,
// a sum and a choice each pass. On a GPU the kernel says `static constexpr bool exchanges = true;`.
#pragma once

#include "sim/ops/add.hpp"
#include "sim/ops/greater_equal.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/where.hpp"

namespace tessera {

namespace detail {
template <class A>
TESSERA_FN auto cumsum_cols_from(const A& a, int apart) {
  return where(col_ids(a) >= apart, a + roll_cols(a, apart), a);
}
template <class A>
TESSERA_FN auto cumsum_rows_from(const A& a, int apart) {
  return where(row_ids(a) >= apart, a + roll_rows(a, apart), a);
}
}  // namespace detail

/// Along each row: y[i,j] = x[i,0] + ... + x[i,j].
template <TileLike A>
TESSERA_FN auto cumsum_cols(const A& a) {
  static_assert(!kIsSmallFloat<typename A::Element>, "sum in f32: cumsum_cols(cast<float>(x))");
  auto sums = A::Backend::load(a);
  for (int apart = 1; apart < a.cols; apart *= 2)
    sums = A::Backend::load(detail::cumsum_cols_from(sums, apart));
  return sums;
}
/// Down each column: y[i,j] = x[0,j] + ... + x[i,j].
template <TileLike A>
TESSERA_FN auto cumsum_rows(const A& a) {
  static_assert(!kIsSmallFloat<typename A::Element>, "sum in f32: cumsum_rows(cast<float>(x))");
  auto sums = A::Backend::load(a);
  for (int apart = 1; apart < a.rows; apart *= 2)
    sums = A::Backend::load(detail::cumsum_rows_from(sums, apart));
  return sums;
}

}  // namespace tessera
