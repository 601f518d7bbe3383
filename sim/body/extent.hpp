// Extents and program ids: numbers that are compile-time under nvcc and run-time in the
// interpreter.
#pragma once

#include <type_traits>

#include "memory_model/tessera_fn.hpp"

namespace tessera {

/// A compile-time extent; decays to int in arithmetic.
template <int N>
struct Int {
  static constexpr int value = N;
  TESSERA_FN constexpr operator int() const { return N; }  // NOLINT(google-explicit-constructor)
};

template <int A, int B>
TESSERA_FN constexpr Int<A + B> operator+(Int<A>, Int<B>) {
  return {};
}

/// ceil(a / b), for a >= 0 and b > 0.
TESSERA_FN constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// A program id, or a number computed from program ids. kArbitrary says whether an `arbitrary`
/// dimension is among them: such an operand changes inside a parallel cell, so a pipeline must
/// fetch it there; any other is fetched once per cell.
template <bool kArbitrary>
struct Id {
  int value = 0;
  TESSERA_FN constexpr operator int() const {
    return value;
  }  // NOLINT(google-explicit-constructor)
};

template <class T>
inline constexpr bool kIsId = false;
template <bool A>
inline constexpr bool kIsId<Id<A>> = true;
template <class T>
inline constexpr bool kIsArbitrary = false;
template <>
inline constexpr bool kIsArbitrary<Id<true>> = true;

/// Stands for a program id and has arithmetic of its own (sim/counted/affine_id.hpp).
template <class T>
inline constexpr bool kIsSymbolic = false;

template <class A, class B>
concept IdArithmetic =
    (kIsId<A> || kIsId<B>)&&!kIsSymbolic<A> &&
    !kIsSymbolic<B> && std::is_convertible_v<A, int> && std::is_convertible_v<B, int>;
template <class... T>
using IdOf = Id<(kIsArbitrary<T> || ...)>;

template <class A, class B>
requires IdArithmetic<A, B> TESSERA_FN constexpr auto operator+(A a, B b) {
  return IdOf<A, B>{static_cast<int>(a) + static_cast<int>(b)};
}
template <class A, class B>
requires IdArithmetic<A, B> TESSERA_FN constexpr auto operator-(A a, B b) {
  return IdOf<A, B>{static_cast<int>(a) - static_cast<int>(b)};
}
template <class A, class B>
requires IdArithmetic<A, B> TESSERA_FN constexpr auto operator*(A a, B b) {
  return IdOf<A, B>{static_cast<int>(a) * static_cast<int>(b)};
}
template <class A, class B>
requires IdArithmetic<A, B> TESSERA_FN constexpr auto operator/(A a, B b) {
  return IdOf<A, B>{static_cast<int>(a) / static_cast<int>(b)};
}
template <class A, class B>
requires IdArithmetic<A, B> TESSERA_FN constexpr auto operator%(A a, B b) {
  return IdOf<A, B>{static_cast<int>(a) % static_cast<int>(b)};
}

/// The smaller and the larger of two extents or ids; ids keep their dependence.
template <class A, class B>
requires(std::is_convertible_v<A, int>&& std::is_convertible_v<B, int>) TESSERA_FN
    constexpr auto lesser(A a, B b) {
  const int v =
      static_cast<int>(a) < static_cast<int>(b) ? static_cast<int>(a) : static_cast<int>(b);
  if constexpr (kIsId<A> || kIsId<B>)
    return IdOf<A, B>{v};
  else
    return v;
}
template <class A, class B>
requires(std::is_convertible_v<A, int>&& std::is_convertible_v<B, int>) TESSERA_FN
    constexpr auto greater(A a, B b) {
  const int v =
      static_cast<int>(a) > static_cast<int>(b) ? static_cast<int>(a) : static_cast<int>(b);
  if constexpr (kIsId<A> || kIsId<B>)
    return IdOf<A, B>{v};
  else
    return v;
}

}  // namespace tessera
