#pragma once

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
    return static_cast<T>(std::pow(static_cast<Wide<T>>(a), static_cast<Wide<T>>(b)));
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto pow(const A& a, const B& b) {
  return BackendOf<A, B>::template map<Pow>(a, b);
}

}  // namespace tessera
