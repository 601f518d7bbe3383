#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// One number everywhere.
struct Full {
  static constexpr OpInfo info{.name = "full",
                               .math = "v",
                               .mosaic = "arith.constant",
                               .arity = 1,
                               .max_ulp = 0,
                               .flops = 0};
};

/// A tile of rows x cols, extents as in a spec: `.rows` and `.cols` of a ref or a tile, or Int<N>.
/// The env says for which build: full<float>(env, x.rows, Int<128>{}, 0.f).
template <class T, class Env, class R, class C, ScalarLike V>
TESSERA_FN auto full(const Env&, R rows, C cols, V v) {
  return Env::Backend::template full<T>(rows, cols, convert<T>(v));
}
/// Of a tile's shape and element type.
template <TileLike A, ScalarLike V>
TESSERA_FN auto full_like(const A& like, V v) {
  using T = typename A::Element;
  return A::Backend::template full<T>(like.rows, like.cols, convert<T>(v));
}
template <TileLike A>
TESSERA_FN auto zeros_like(const A& like) {
  return full_like(like, 0);
}

}  // namespace tessera
