#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Fused multiply-add: one rounding.
struct Fma {
  static constexpr OpInfo info{.name = "fma",
                               .math = "a * b + c",
                               .mosaic = "math.fma",
                               .arity = 3,
                               .max_ulp = 0.5,
                               .flops = 2};

  template <class T>
  TESSERA_FN static T apply(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};

template <class A, class B, class C>
requires Operands<A, B, C> TESSERA_FN auto fma(const A& a, const B& b, const C& c) {
  return BackendOf<A, B, C>::template map<Fma>(a, b, c);
}

}  // namespace tessera
