#pragma once

#include "sim/ops/exact/pow.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// a to the b (IEEE 754 pow).
struct Pow {
  static constexpr OpInfo info{.name = "pow",
                               .math = "a^b",
                               .mosaic = "math.powf",
                               .arity = 2,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a, T b) {
    if constexpr (std::is_same_v<T, float>)
      return exact::pow(a, b);
    else
      return std::pow(a, b);
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto pow(const A& a, const B& b) {
  return BackendOf<A, B>::template map<Pow>(a, b);
}

}  // namespace tessera
