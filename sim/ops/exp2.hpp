#pragma once

#include "sim/ops/exact/exp.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// 2 to the a.
struct Exp2 {
  static constexpr OpInfo info{.name = "exp2",
                               .math = "2^a",
                               .mosaic = "math.exp2",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return exact::exp2(a);
    else
      return std::exp2(a);
  }
};

template <TileLike A>
TESSERA_FN auto exp2(const A& a) {
  return A::Backend::template map<Exp2>(a);
}

}  // namespace tessera
