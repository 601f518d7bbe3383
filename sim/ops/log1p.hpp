#pragma once

#include "sim/ops/exact/log.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// Natural logarithm of 1 + a, exact near 0.
struct Log1p {
  static constexpr OpInfo info{.name = "log1p",
                               .math = "ln(1 + a)",
                               .mosaic = "math.log1p",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return exact::log1p(a);
    else
      return std::log1p(a);
  }
};

template <TileLike A>
TESSERA_FN auto log1p(const A& a) {
  return A::Backend::template map<Log1p>(a);
}

}  // namespace tessera
