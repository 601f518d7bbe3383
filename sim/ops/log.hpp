#pragma once

#include "sim/ops/exact/log.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// Natural logarithm; NaN below 0.
struct Log {
  static constexpr OpInfo info{.name = "log",
                               .math = "ln a",
                               .mosaic = "math.log",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return exact::log(a);
    else
      return std::log(a);
  }
};

template <TileLike A>
TESSERA_FN auto log(const A& a) {
  return A::Backend::template map<Log>(a);
}

}  // namespace tessera
