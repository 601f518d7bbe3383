#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// The smaller of a and b; NaN if either is NaN.
struct Minimum {
  static constexpr OpInfo info{
      .name = "min", .math = "min(a, b)", .mosaic = "arith.minimumf", .arity = 2, .max_ulp = 0};

  template <class T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    return a != a || a <= b ? a : b;
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto min(const A& a, const B& b) {
  return BackendOf<A, B>::template map<Minimum>(a, b);
}

}  // namespace tessera
