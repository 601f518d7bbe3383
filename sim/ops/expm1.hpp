#pragma once

#include "sim/ops/exact/exp.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// e to the a, less 1, exact near 0.
struct Expm1 {
  static constexpr OpInfo info{.name = "expm1",
                               .math = "e^a - 1",
                               .mosaic = "math.expm1",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return exact::expm1(a);
    else
      return std::expm1(a);
  }
};

template <TileLike A>
TESSERA_FN auto expm1(const A& a) {
  return A::Backend::template map<Expm1>(a);
}

}  // namespace tessera
