#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// True where a differs from b; true if either is NaN.
struct NotEqual {
  static constexpr OpInfo info{
      .name = "not_equal", .math = "a != b", .mosaic = "arith.cmpf", .arity = 2, .max_ulp = 0};

  template <class T>
  TESSERA_FN static constexpr bool apply(T a, T b) {
    return a != b;
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto operator!=(const A& a, const B& b) {
  return BackendOf<A, B>::template map<NotEqual>(a, b);
}

}  // namespace tessera
