#pragma once

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
    return static_cast<T>(std::cos(static_cast<Wide<T>>(a)));
  }
};

template <TileLike A>
TESSERA_FN auto cos(const A& a) {
  return A::Backend::template map<Cos>(a);
}

}  // namespace tessera
