#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Reciprocal of the square root, rounded once.
struct Rsqrt {
  static constexpr OpInfo info{.name = "rsqrt",
                               .math = "1 / sqrt(a)",
                               .mosaic = "math.rsqrt",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    return static_cast<T>(1 / std::sqrt(static_cast<Wide<T>>(a)));
  }
};

template <TileLike A>
TESSERA_FN auto rsqrt(const A& a) {
  return A::Backend::template map<Rsqrt>(a);
}

}  // namespace tessera
