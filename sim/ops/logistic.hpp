#pragma once

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
    const auto wide = static_cast<Wide<T>>(a);
    return static_cast<T>(1 / (1 + std::exp(-wide)));
  }
};

template <TileLike A>
TESSERA_FN auto logistic(const A& a) {
  return A::Backend::template map<Logistic>(a);
}

}  // namespace tessera
