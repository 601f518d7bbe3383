// The gradient of ReLU, masked by the forward's output.
//
//   g = dy where y > 0, else 0          (y = max(x @ w, 0): kernels/matmul_relu.hpp)
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/greater.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

template <class T>
struct GradRelu {
  static constexpr KernelInfo info{.name = "grad_relu",
                                   .summary = "gradient of ReLU, masked by its output",
                                   .math = "g[i,j] = y[i,j] > 0 ? dy[i,j] : 0"};

  int m = 0;
  int n = 0;

  static constexpr auto sizes =
      params(size("m", &GradRelu::m, "rows"), size("n", &GradRelu::n, "columns"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"));
  static constexpr std::array cases{Case{"aligned", {512, 1024}, {128, 256}},
                                    Case{"ragged", {41, 300}, {16, 128}},
                                    Case{"degenerate", {1, 1}, {8, 128}}};

  TESSERA_FN auto spec(auto bm, auto bn) const {
    auto tile_block = [](auto i, auto j) { return at(i, j); };
    return tessera::spec(grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(n, bn)).as("j")),
                         in<T>("dy", shape(m, n), block(bm, bn), tile_block),
                         in<T>("y", shape(m, n), block(bm, bn), tile_block),
                         out<T>("g", shape(m, n), block(bm, bn), tile_block));
  }

  /// Each matrix once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t elems = std::int64_t{m} * n;
    return {2 * elems * kBytes<T>, elems * kBytes<T>};
  }

  TESSERA_FN void operator()(auto&, auto dy, auto y, auto g) const {
    *g = cast<T>(where(cast<float>(*y) > 0.f, cast<float>(*dy), 0.f));  // (bm, bn)
  }
};

}  // namespace tessera::kernels
