#pragma once

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
    return static_cast<T>(std::exp(static_cast<Wide<T>>(a)));
  }
};

template <TileLike A>
TESSERA_FN auto exp(const A& a) {
  return A::Backend::template map<Exp>(a);
}

}  // namespace tessera
