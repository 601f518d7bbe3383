// Sums of rows of a product's left operand: its product with a column of ones.
#pragma once

#include "sim/ops/dot.hpp"

namespace tessera {

/// sum_j a[i,j], as dot() sums: (R, C) to (R, 1), f32.
template <TileLike A>
TESSERA_FN auto row_total(const A& a) {
  if constexpr (requires { A::Backend::row_total(a); }) {
    return A::Backend::row_total(a);
  } else {
    using T = typename A::Element;
    return load(dot(a, A::Backend::template full<T>(a.cols, Int<1>{}, convert<T>(1.f))));
  }
}

}  // namespace tessera
