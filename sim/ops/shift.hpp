#pragma once

#include "sim/ops/bitwise.hpp"

namespace tessera {

namespace detail {
template <class T>
inline constexpr T kBitsOf = static_cast<T>(8 * sizeof(T));
}  // namespace detail

/// Bits moved up by b places, zeros after them; 0 if b is not less than the bits of the type.
struct ShiftLeft {
  static constexpr OpInfo info{
      .name = "shift_left", .math = "a << b", .mosaic = "arith.shli", .arity = 2, .max_ulp = 0};

  template <std::integral T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    using U = std::make_unsigned_t<T>;
    const bool inside = static_cast<U>(b) < static_cast<U>(detail::kBitsOf<T>);
    return inside ? static_cast<T>(static_cast<U>(static_cast<U>(a) << static_cast<U>(b))) : T(0);
  }
};
/// Bits moved down by b places: zeros come after those of unsigned integers, the sign after those
/// of signed ones; nothing else is left if b is not less than the bits of the type.
struct ShiftRight {
  static constexpr OpInfo info{
      .name = "shift_right", .math = "a >> b", .mosaic = "arith.shrsi", .arity = 2, .max_ulp = 0};

  template <std::integral T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    using U = std::make_unsigned_t<T>;
    const bool inside = static_cast<U>(b) < static_cast<U>(detail::kBitsOf<T>);
    if constexpr (std::is_signed_v<T>)
      return inside ? static_cast<T>(a >> b) : a < 0 ? T(-1) : T(0);
    else
      return inside ? static_cast<T>(a >> b) : T(0);
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto operator<<(const A& a, const B& b) {
  detail::check_integers<A, B>();
  return BackendOf<A, B>::template map<ShiftLeft>(a, b);
}
template <class A, class B>
requires Operands<A, B> TESSERA_FN auto operator>>(const A& a, const B& b) {
  detail::check_integers<A, B>();
  return BackendOf<A, B>::template map<ShiftRight>(a, b);
}

}  // namespace tessera
