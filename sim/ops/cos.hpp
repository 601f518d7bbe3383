#pragma once

#include "sim/ops/exact/circular.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// Cosine of a in radians.
struct Cos {
  static constexpr OpInfo info{.name = "cos",
                               .math = "cos(a)",
                               .mosaic = "math.cos",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return exact::cos(a);
    else
      return std::cos(a);
  }
};

template <TileLike A>
TESSERA_FN auto cos(const A& a) {
  return A::Backend::template map<Cos>(a);
}

}  // namespace tessera
