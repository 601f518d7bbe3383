#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// True where a is false.
struct LogicalNot {
  static constexpr OpInfo info{
      .name = "not", .math = "not a", .mosaic = "arith.xori", .arity = 1, .max_ulp = 0};

  template <class T>
  TESSERA_FN static constexpr T apply(T a) {
    return !a;
  }
};

template <TileLike A>
TESSERA_FN auto operator!(const A& a) {
  return A::Backend::template map<LogicalNot>(a);
}

}  // namespace tessera
