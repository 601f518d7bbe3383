#pragma once

#include "sim/ops/exact/erf.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// The error function.
struct Erf {
  static constexpr OpInfo info{.name = "erf",
                               .math = "2/sqrt(pi) integral_0^a exp(-t^2) dt",
                               .mosaic = "math.erf",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return exact::erf(a);
    else
      return std::erf(a);
  }
};

template <TileLike A>
TESSERA_FN auto erf(const A& a) {
  return A::Backend::template map<Erf>(a);
}

}  // namespace tessera
