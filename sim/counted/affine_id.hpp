// The id of a grid's last dimension along a run of its steps: a number and what each step adds.
//
// Index maps are generic in their ids. Called with an AffineId in the last place, a map that adds,
// subtracts and multiplies by numbers gives blocks in closed form; whatever else it does with the
// id converts it to an int, which is noted (AffineId::left).
#pragma once

#include <algorithm>
#include <array>

#include "sim/body/spec.hpp"

namespace tessera {

struct AffineId {
  std::int64_t value = 0;  ///< at the first step of the run
  std::int64_t slope = 0;  ///< from step to step

  /// True since it was reset, if an id was used as anything but a term.
  static inline thread_local bool left = false;
  operator int() const {  // NOLINT(google-explicit-constructor)
    left = true;
    return static_cast<int>(value);
  }
};

template <>
inline constexpr bool kIsSymbolic<AffineId> = true;

template <class A, class B>
concept AffineTerms =
    (kIsSymbolic<A> ||
     kIsSymbolic<B>)&&std::is_convertible_v<A, int>&& std::is_convertible_v<B, int>;

namespace detail {
constexpr AffineId affine(AffineId id) { return id; }
template <class T>
constexpr AffineId affine(T number) {
  return {static_cast<int>(number), 0};
}
}  // namespace detail

template <class A, class B>
requires AffineTerms<A, B>
constexpr AffineId operator+(A a, B b) {
  const AffineId x = detail::affine(a);
  const AffineId y = detail::affine(b);
  return {x.value + y.value, x.slope + y.slope};
}
template <class A, class B>
requires AffineTerms<A, B>
constexpr AffineId operator-(A a, B b) {
  const AffineId x = detail::affine(a);
  const AffineId y = detail::affine(b);
  return {x.value - y.value, x.slope - y.slope};
}
template <class A, class B>
requires AffineTerms<A, B>
constexpr AffineId operator*(A a, B b) {
  const AffineId x = detail::affine(a);
  const AffineId y = detail::affine(b);
  if (x.slope != 0 && y.slope != 0) AffineId::left = true;
  return {x.value * y.value, x.slope * y.value + y.slope * x.value};
}

/// A block index along a run. It has no `index`: who takes an index apart must know of slopes.
template <std::size_t kCount>
struct AffineIndex {
  static constexpr int kRank = static_cast<int>(kCount);
  std::array<AffineId, kCount> along;
};
template <class... I>
requires(kIsSymbolic<I> || ...) constexpr auto at(I... i) {
  return AffineIndex<sizeof...(I)>{{detail::affine(i)...}};
}
/// Of a batched kernel (sim/body/batched.hpp).
template <class B, std::size_t kCount>
constexpr auto prepend_index(B b, const AffineIndex<kCount>& inner) {
  AffineIndex<kCount + 1> index{};
  index.along[0] = detail::affine(b);
  std::copy(inner.along.begin(), inner.along.end(), index.along.begin() + 1);
  return index;
}

}  // namespace tessera
