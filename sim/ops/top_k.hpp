// The largest elements of rows, as routers and samplers want them. Made of other ops: a row_max,
// and the first column that has it, for each.
#pragma once

#include "sim/body/extent.hpp"
#include "sim/ops/and.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/less.hpp"
#include "sim/ops/not.hpp"
#include "sim/ops/not_equal.hpp"
#include "sim/ops/or.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sort.hpp"
#include "sim/ops/where.hpp"

namespace tessera {

/// The kCount largest elements of each row and their columns, the largest first, of equal ones the
/// first one first; NaNs count as larger than all: (R, C) to (R, kCount) and (R, kCount), i32. Of
/// more than the row has, the column is C.
template <int kCount, TileLike A>
TESSERA_FN auto top_k(const A& a) {
  using To = typename A::Backend;
  using T = typename A::Element;
  static_assert(!kIsSmallFloat<T>, "top_k in f32: top_k<k>(cast<float>(x))");
  static_assert(kCount > 0, "top_k of one element or more");
  const auto columns = col_ids(a);
  auto taken = To::load(columns < 0);
  auto values = To::template full<T>(a.rows, Int<kCount>{}, T(0));
  auto ids = To::template full<std::int32_t>(a.rows, Int<kCount>{}, 0);
  for (int n = 0; n < kCount; ++n) {
    const auto best = To::load(row_max(where(taken, RowMax::identity<T>(), a)));
    const auto is_best = !taken && (a == best || a != a);
    const auto id = To::load(row_min(where(is_best, columns, static_cast<int>(a.cols))));
    taken = To::load(taken || columns == id);
    values = To::load(where(col_ids(values) == n, best, values));
    ids = To::load(where(col_ids(ids) == n, id, ids));
  }
  return Sorted<decltype(values), decltype(ids)>{values, ids};
}

}  // namespace tessera
