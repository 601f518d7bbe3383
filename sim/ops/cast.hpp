#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// The value in another type, by the rules of memory_model/dtype.hpp.
struct Cast {
  static constexpr OpInfo info{.name = "cast",
                               .math = "T(a)",
                               .mosaic = "arith.truncf",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .flops = 0};

  template <class To, class From>
  TESSERA_FN static constexpr To apply(From a) {
    return convert<To>(a);
  }
};

template <class To, TileLike A>
TESSERA_FN auto cast(const A& a) {
  return A::Backend::template cast<To>(a);
}

}  // namespace tessera
