#pragma once

#include "sim/ops/exact/exp.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

/// The logistic function.
struct Logistic {
  static constexpr OpInfo info{.name = "logistic",
                               .math = "1 / (1 + e^-a)",
                               .mosaic = "",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .flops = 3,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    if constexpr (std::is_same_v<T, float>)
      return exact::logistic(a);
    else
      return 1 / (1 + std::exp(-a));
  }
};

template <TileLike A>
TESSERA_FN auto logistic(const A& a) {
  return A::Backend::template map<Logistic>(a);
}

}  // namespace tessera
