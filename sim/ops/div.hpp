#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Quotient; integers truncate toward zero, a / 0 is all ones, the least one by -1 stays.
struct Div {
  static constexpr OpInfo info{
      .name = "div", .math = "a / b", .mosaic = "arith.divf", .arity = 2, .max_ulp = 0.5};

  template <class T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == T(0)) return static_cast<T>(-1);
      // The least integer has no quotient by -1.
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return static_cast<T>(-static_cast<Wrapping<T>>(a));
      }
    }
    return static_cast<T>(a / b);
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto operator/(const A& a, const B& b) {
  return BackendOf<A, B>::template map<Div>(a, b);
}

}  // namespace tessera
