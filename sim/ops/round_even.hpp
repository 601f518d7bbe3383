#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// The nearest integer, ties to even (in the default rounding mode).
struct RoundEven {
  static constexpr OpInfo info{.name = "round_even",
                               .math = "rint(a)",
                               .mosaic = "math.roundeven",
                               .arity = 1,
                               .max_ulp = 0};

  template <class T>
  TESSERA_FN static T apply(T a) {
    return std::nearbyint(a);
  }
};

template <TileLike A>
TESSERA_FN auto round_even(const A& a) {
  return A::Backend::template map<RoundEven>(a);
}

}  // namespace tessera
