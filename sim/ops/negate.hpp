#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Sign flipped, of a NaN too; the least integer stays.
struct Negate {
  static constexpr OpInfo info{
      .name = "negate", .math = "-a", .mosaic = "arith.negf", .arity = 1, .max_ulp = 0};

  template <class T>
  TESSERA_FN static constexpr T apply(T a) {
    return static_cast<T>(-static_cast<Wrapping<T>>(a));
  }
};

template <TileLike A>
TESSERA_FN auto operator-(const A& a) {
  return A::Backend::template map<Negate>(a);
}

}  // namespace tessera
