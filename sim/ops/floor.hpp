#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// The greatest integer not above a.
struct Floor {
  static constexpr OpInfo info{
      .name = "floor", .math = "floor(a)", .mosaic = "math.floor", .arity = 1, .max_ulp = 0};

  template <class T>
  TESSERA_FN static T apply(T a) {
    return std::floor(a);
  }
};

template <TileLike A>
TESSERA_FN auto floor(const A& a) {
  return A::Backend::template map<Floor>(a);
}

}  // namespace tessera
