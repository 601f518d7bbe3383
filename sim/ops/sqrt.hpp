#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Square root; NaN below 0.
struct Sqrt {
  static constexpr OpInfo info{.name = "sqrt",
                               .math = "sqrt(a)",
                               .mosaic = "math.sqrt",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    return std::sqrt(a);
  }
};

template <TileLike A>
TESSERA_FN auto sqrt(const A& a) {
  return A::Backend::template map<Sqrt>(a);
}

}  // namespace tessera
