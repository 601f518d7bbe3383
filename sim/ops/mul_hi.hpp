#pragma once

#include "sim/ops/bitwise.hpp"

namespace tessera {

/// The upper 32 bits of the product of two 32-bit integers.
struct MulHi {
  static constexpr OpInfo info{
      .name = "mul_hi", .math = "(a * b) >> 32", .mosaic = "", .arity = 2, .max_ulp = 0};

  template <std::integral T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> 32);
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto mul_hi(const A& a, const B& b) {
  detail::check_integers<A, B>();
  static_assert(sizeof(typename detail::ValueType<A, B>::type) == 4, "mul_hi is of i32 and u32");
  return BackendOf<A, B>::template map<MulHi>(a, b);
}

}  // namespace tessera
