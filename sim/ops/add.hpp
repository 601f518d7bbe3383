#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Sum; of integers it wraps.
struct Add {
  static constexpr OpInfo info{
      .name = "add", .math = "a + b", .mosaic = "arith.addf", .arity = 2, .max_ulp = 0.5};

  template <class T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto operator+(const A& a, const B& b) {
  return BackendOf<A, B>::template map<Add>(a, b);
}

}  // namespace tessera
