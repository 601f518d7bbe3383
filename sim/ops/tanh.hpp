#pragma once

#include "sim/ops/exact/exp.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// Hyperbolic tangent.
struct Tanh {
  static constexpr OpInfo info{.name = "tanh",
                               .math = "tanh(a)",
                               .mosaic = "math.tanh",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return exact::tanh(a);
    else
      return std::tanh(a);
  }
};

template <TileLike A>
TESSERA_FN auto tanh(const A& a) {
  return A::Backend::template map<Tanh>(a);
}

}  // namespace tessera
