#pragma once

#include "sim/ops/exact/exp.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// e to the a.
struct Exp {
  static constexpr OpInfo info{.name = "exp",
                               .math = "e^a",
                               .mosaic = "math.exp",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return exact::exp(a);
    else
      return std::exp(a);
  }
};

template <TileLike A>
TESSERA_FN auto exp(const A& a) {
  return A::Backend::template map<Exp>(a);
}

}  // namespace tessera
