#pragma once

#include "sim/ops/exact/log.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// Logarithm to base 2; NaN below 0.
struct Log2 {
  static constexpr OpInfo info{.name = "log2",
                               .math = "log2 a",
                               .mosaic = "math.log2",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return exact::log2(a);
    else
      return std::log2(a);
  }
};

template <TileLike A>
TESSERA_FN auto log2(const A& a) {
  return A::Backend::template map<Log2>(a);
}

}  // namespace tessera
