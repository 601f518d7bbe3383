#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// The larger of a and b; NaN if either is NaN.
struct Maximum {
  static constexpr OpInfo info{
      .name = "max", .math = "max(a, b)", .mosaic = "arith.maximumf", .arity = 2, .max_ulp = 0};

  template <class T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    return a != a || a >= b ? a : b;
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto max(const A& a, const B& b) {
  return BackendOf<A, B>::template map<Maximum>(a, b);
}

}  // namespace tessera
