#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Reciprocal of the square root. Computed in f64, f32 comes out correctly rounded.
struct Rsqrt {
  static constexpr OpInfo info{.name = "rsqrt",
                               .math = "1 / sqrt(a)",
                               .mosaic = "math.rsqrt",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return static_cast<float>(1 / std::sqrt(static_cast<double>(a)));
    else
      return 1 / std::sqrt(a);
  }
};

template <TileLike A>
TESSERA_FN auto rsqrt(const A& a) {
  return A::Backend::template map<Rsqrt>(a);
}

}  // namespace tessera
