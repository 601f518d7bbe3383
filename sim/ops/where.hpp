#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// a where the mask holds, b elsewhere.
struct Select {
  static constexpr OpInfo info{.name = "where",
                               .math = "mask ? a : b",
                               .mosaic = "arith.select",
                               .arity = 3,
                               .max_ulp = 0,
                               .flops = 0};

  template <class T>
  TESSERA_FN static constexpr T apply(bool mask, T a, T b) {
    return mask ? a : b;
  }
};

template <TileLike M, class A, class B>
requires(Operands<M, A, B>) TESSERA_FN auto where(const M& mask, const A& a, const B& b) {
  return M::Backend::template map<Select>(mask, a, b);
}

}  // namespace tessera
