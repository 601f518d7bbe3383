// Scans: what an associative function makes of all elements up to each. The order, in every build:
// passes s = 1, 2, 4, ...; in each, element i becomes combine(element i - s, element i) of the pass
// before, where there is one. Made of other ops: a rotation, the function and a choice each pass.
// On a GPU the kernel says `static constexpr bool exchanges = true;`.
#pragma once

#include "sim/ops/add.hpp"
#include "sim/ops/greater_equal.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/where.hpp"

namespace tessera {

namespace detail {
template <bool kRows, class A>
TESSERA_FN auto along(const A& a) {
  if constexpr (kRows)
    return row_ids(a);
  else
    return col_ids(a);
}
template <bool kRows, class A>
TESSERA_FN auto moved_on(const A& a, int n) {
  return A::Backend::template roll<kRows>(a, n);
}
template <bool kRows, class A>
TESSERA_FN int extent_along(const A& a) {
  return kRows ? static_cast<int>(a.rows) : static_cast<int>(a.cols);
}

template <bool kRows, class A, class Combine>
TESSERA_FN auto scan(const A& a, Combine combine) {
  using To = typename A::Backend;
  auto all = To::load(a);
  for (int apart = 1; apart < extent_along<kRows>(a); apart *= 2) {
    const auto earlier = moved_on<kRows>(all, apart);
    all = To::load(where(along<kRows>(all) >= apart, combine(earlier, all), all));
  }
  return all;
}
template <bool kRows, class A, class B>
TESSERA_FN auto linear_scan(const A& decay, const B& x) {
  static_assert(std::is_same_v<typename A::Element, typename B::Element>,
                "element types differ: cast<T>() first");
  static_assert(!kIsSmallFloat<typename A::Element>, "scan in f32: cast<float>(x)");
  using To = typename A::Backend;
  auto product = To::load(decay);
  auto state = To::load(x);
  for (int apart = 1; apart < extent_along<kRows>(x); apart *= 2) {
    const auto inside = To::load(along<kRows>(state) >= apart);
    const auto before = moved_on<kRows>(state, apart);
    const auto decayed = moved_on<kRows>(product, apart);
    state = To::load(where(inside, product * before + state, state));
    product = To::load(where(inside, product * decayed, product));
  }
  return state;
}
}  // namespace detail

/// Down each column, or along each row, of any associative function of two tiles:
/// scan_rows(x, [](auto earlier, auto later) { return max(earlier, later); }).
template <TileLike A, class Combine>
TESSERA_FN auto scan_rows(const A& a, Combine combine) {
  return detail::scan<true>(a, combine);
}
template <TileLike A, class Combine>
TESSERA_FN auto scan_cols(const A& a, Combine combine) {
  return detail::scan<false>(a, combine);
}

/// A linear recurrence, h[i] = decay[i] * h[i - 1] + x[i] from h[-1] = 0, down each column or along
/// each row. Of a pass, (d, h) and (e, g) after it make (e d, e h + g).
template <TileLike A, TileLike B>
TESSERA_FN auto linear_scan_rows(const A& decay, const B& x) {
  return detail::linear_scan<true>(decay, x);
}
template <TileLike A, TileLike B>
TESSERA_FN auto linear_scan_cols(const A& decay, const B& x) {
  return detail::linear_scan<false>(decay, x);
}

}  // namespace tessera
