#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

namespace detail {
/// Tiles of integers, and integers beside them.
template <class X>
constexpr bool of_integers() {
  if constexpr (TileLike<X>)
    return std::is_integral_v<typename X::Element> && !std::is_same_v<typename X::Element, bool>;
  else if constexpr (ScalarPlace<X>)
    return std::is_integral_v<typename X::ScalarType>;
  else
    return std::is_integral_v<X> || kIsTracedNumber<X>;
}
template <class... X>
TESSERA_FN constexpr void check_integers() {
  static_assert((of_integers<X>() && ...),
                "bits are those of integers: cast<T>() or bitcast<T>() the operand; masks take && "
                "and ||");
}
}  // namespace detail

/// Bit by bit.
struct BitAnd {
  static constexpr OpInfo info{
      .name = "bit_and", .math = "a & b", .mosaic = "arith.andi", .arity = 2, .max_ulp = 0};

  template <std::integral T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
/// Bit by bit.
struct BitOr {
  static constexpr OpInfo info{
      .name = "bit_or", .math = "a | b", .mosaic = "arith.ori", .arity = 2, .max_ulp = 0};

  template <std::integral T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
/// Bit by bit.
struct BitXor {
  static constexpr OpInfo info{
      .name = "bit_xor", .math = "a ^ b", .mosaic = "arith.xori", .arity = 2, .max_ulp = 0};

  template <std::integral T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto operator&(const A& a, const B& b) {
  detail::check_integers<A, B>();
  return BackendOf<A, B>::template map<BitAnd>(a, b);
}
template <class A, class B>
requires Operands<A, B> TESSERA_FN auto operator|(const A& a, const B& b) {
  detail::check_integers<A, B>();
  return BackendOf<A, B>::template map<BitOr>(a, b);
}
template <class A, class B>
requires Operands<A, B> TESSERA_FN auto operator^(const A& a, const B& b) {
  detail::check_integers<A, B>();
  return BackendOf<A, B>::template map<BitXor>(a, b);
}

}  // namespace tessera
