// Where the largest and the smallest elements are. Made of other ops, so that they are the same in
// every build.
#pragma once

#include "sim/ops/equal.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/not_equal.hpp"
#include "sim/ops/or.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/where.hpp"

namespace tessera {

namespace detail {
/// The first column whose element is the row's `best`, or is NaN: (R, C) to (R, 1), i32.
template <class A, class B>
TESSERA_FN auto first_column(const A& a, const B& best) {
  const auto columns = col_ids(a);
  return row_min(where(a == best || a != a, columns, static_cast<int>(a.cols)));
}
}  // namespace detail

/// The column of each row's largest (smallest) element, the first of equal ones; of the first NaN
/// if the row has one: (R, C) to (R, 1), i32.
template <TileLike A>
TESSERA_FN auto row_argmax(const A& a) {
  return detail::first_column(a, row_max(a));
}
template <TileLike A>
TESSERA_FN auto row_argmin(const A& a) {
  return detail::first_column(a, row_min(a));
}

}  // namespace tessera
