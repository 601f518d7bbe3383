#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Quotient; integers truncate toward zero.
struct Div {
  static constexpr OpInfo info{
      .name = "div", .math = "a / b", .mosaic = "arith.divf", .arity = 2, .max_ulp = 0.5};

  template <class T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    return static_cast<T>(a / b);
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto operator/(const A& a, const B& b) {
  return BackendOf<A, B>::template map<Div>(a, b);
}

}  // namespace tessera
