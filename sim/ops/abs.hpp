#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Magnitude; clears the sign of a NaN too; the least integer stays.
struct Abs {
  static constexpr OpInfo info{
      .name = "abs", .math = "|a|", .mosaic = "math.absf", .arity = 1, .max_ulp = 0};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(a);
    else
      return a < T(0) ? static_cast<T>(-static_cast<Wrapping<T>>(a)) : a;
  }
};

template <TileLike A>
TESSERA_FN auto abs(const A& a) {
  return A::Backend::template map<Abs>(a);
}

}  // namespace tessera
