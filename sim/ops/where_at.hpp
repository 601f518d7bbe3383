#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// A function of the position: result[r,c] = f(r, c, a[r,c]), rows and columns counted in the tile.
/// For masks by position: where_at(s, [=](int r, int c) { return r >= c; }, -inf) keeps s where f
/// holds.
struct WhereAt {
  static constexpr OpInfo info{.name = "where_at",
                               .math = "keep(r, c) ? a[r,c] : b",
                               .mosaic = "",
                               .arity = 2,
                               .max_ulp = 0,
                               .flops = 0};
};

template <TileLike A, class Keep, ScalarLike B>
TESSERA_FN auto where_at(const A& a, Keep keep, B otherwise) {
  return A::Backend::where_at(a, keep, otherwise);
}

}  // namespace tessera
