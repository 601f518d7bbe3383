#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// The least integer not below a.
struct Ceil {
  static constexpr OpInfo info{
      .name = "ceil", .math = "ceil(a)", .mosaic = "math.ceil", .arity = 1, .max_ulp = 0};

  template <class T>
  TESSERA_FN static T apply(T a) {
    return std::ceil(a);
  }
};

template <TileLike A>
TESSERA_FN auto ceil(const A& a) {
  return A::Backend::template map<Ceil>(a);
}

}  // namespace tessera
