#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Difference; of integers it wraps.
struct Sub {
  static constexpr OpInfo info{
      .name = "sub", .math = "a - b", .mosaic = "arith.subf", .arity = 2, .max_ulp = 0.5};

  template <class T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto operator-(const A& a, const B& b) {
  return BackendOf<A, B>::template map<Sub>(a, b);
}

}  // namespace tessera
