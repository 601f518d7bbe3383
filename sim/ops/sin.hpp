#pragma once

#include "sim/ops/exact/circular.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// Sine of a in radians.
struct Sin {
  static constexpr OpInfo info{.name = "sin",
                               .math = "sin(a)",
                               .mosaic = "math.sin",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return exact::sin(a);
    else
      return std::sin(a);
  }
};

template <TileLike A>
TESSERA_FN auto sin(const A& a) {
  return A::Backend::template map<Sin>(a);
}

}  // namespace tessera
