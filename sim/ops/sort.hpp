// Rows in order. Made of other ops, so that they are the same in every build: Batcher's merge
// exchange (Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M), which takes any number
// of columns, about log2(C)^2 / 2 passes of rotations, comparisons and choices. Equal elements stay
// in order; -0 and +0 are equal; NaNs come last. On a GPU the kernel says `static constexpr bool
// exchanges = true;`.
#pragma once

#include "sim/ops/and.hpp"
#include "sim/ops/bitwise.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/greater_equal.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/less.hpp"
#include "sim/ops/not.hpp"
#include "sim/ops/not_equal.hpp"
#include "sim/ops/or.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where.hpp"

namespace tessera {

/// Elements, and the columns in which they were, i32.
template <class Values, class Ids>
struct Sorted {
  Values values;
  Ids ids;
};

namespace detail {
template <class A, class B>
TESSERA_FN auto sorts_before(const A& a, const B& b) {
  if constexpr (kIsFloat<typename A::Element>)
    return a < b || (b != b && a == a);
  else
    return a < b;
}
template <class A, class I>
TESSERA_FN auto comes_before(const A& a, const I& a_id, const A& b, const I& b_id) {
  return A::Backend::load(sorts_before(a, b) || (!sorts_before(b, a) && a_id < b_id));
}

/// Column j and column j + apart change places where they are out of order, for j & mask == rest.
template <class Values, class Ids>
TESSERA_FN void exchange_pass(Values& values, Ids& ids, int mask, int rest, int apart) {
  using To = typename Values::Backend;
  const auto columns = col_ids(values);
  const auto next = roll_cols(values, -apart);
  const auto next_id = roll_cols(ids, -apart);
  const auto before = roll_cols(values, apart);
  const auto before_id = roll_cols(ids, apart);
  const int last = static_cast<int>(values.cols) - apart;
  const auto down = To::load(columns < last && (columns & mask) == rest &&
                             comes_before(next, next_id, values, ids));
  const auto up = To::load(columns >= apart && ((columns - apart) & mask) == rest &&
                           comes_before(values, ids, before, before_id));
  values = To::load(where(down, next, where(up, before, values)));
  ids = To::load(where(down, next_id, where(up, before_id, ids)));
}
}  // namespace detail

/// Each row from its smallest element to its largest, with where each was.
template <TileLike A>
TESSERA_FN auto sort_rows_with_ids(const A& a) {
  using To = typename A::Backend;
  auto values = To::load(a);
  auto ids = To::load(col_ids(a));
  int most = 1;
  while (2 * most < static_cast<int>(a.cols)) most *= 2;
  for (int mask = most; mask > 0 && static_cast<int>(a.cols) > 1; mask /= 2) {
    int rest = 0;
    int apart = mask;
    for (int from = most;; from /= 2) {
      detail::exchange_pass(values, ids, mask, rest, apart);
      if (from == mask) break;
      apart = from - mask;
      rest = mask;
    }
  }
  return Sorted<decltype(values), decltype(ids)>{values, ids};
}
template <TileLike A>
TESSERA_FN auto sort_rows(const A& a) {
  return sort_rows_with_ids(a).values;
}
/// The column of each row's smallest element, of its second smallest, ...: i32.
template <TileLike A>
TESSERA_FN auto argsort_rows(const A& a) {
  return sort_rows_with_ids(a).ids;
}

}  // namespace tessera
