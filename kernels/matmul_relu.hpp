// A dense layer's product and its activation, fused.
//
//   y = max(x @ w, 0)
#pragma once

#include "kernels/matmul_bytes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/max.hpp"

namespace tessera::kernels {

template <class T>
struct MatmulRelu {
  static constexpr KernelInfo info{.name = "matmul_relu",
                                   .summary = "matrix product with ReLU in the epilogue",
                                   .math = "y[i,j] = max(sum_k x[i,k] w[k,j], 0)"};

  int m = 0;
  int n = 0;
  int k = 0;

  static constexpr auto sizes = params(size("m", &MatmulRelu::m, "rows of x and y"),
                                       size("n", &MatmulRelu::n, "columns of w and y"),
                                       size("k", &MatmulRelu::k, "columns of x, rows of w"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"), tile("bk"));
  static constexpr std::array cases{Case{"aligned", {512, 512, 512}, {128, 128, 128}},
                                    Case{"ragged", {200, 300, 260}, {128, 128, 128}},
                                    Case{"degenerate", {1, 1, 1}, {8, 128, 128}}};

  TESSERA_FN auto spec(auto bm, auto bn, auto bk) const {
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(n, bn)).as("j"),
             arbitrary(ceil_div(k, bk)).as("k")),
        in<T>("x", shape(m, k), block(bm, bk), [](auto i, auto, auto kk) { return at(i, kk); })
            .pad(0),
        in<T>("w", shape(k, n), block(bk, bn), [](auto, auto j, auto kk) { return at(kk, j); })
            .pad(0),
        out<T>("y", shape(m, n), block(bm, bn), [](auto i, auto j, auto) { return at(i, j); }),
        accum<float>("acc", bm, bn));
  }

  Bytes hbm_bytes(Tiles t, Target target) const {
    const auto reads = matmul_reads(m, n, k, t[0], t[1], t[2], target);
    return {(reads.left + reads.right) * kBytes<T>, std::int64_t{m} * n * kBytes<T>};
  }

  TESSERA_FN void operator()(auto& env, auto x, auto w, auto y, auto acc) const {
    if (env.first(2)) *acc = 0.f;                   // (bm, bn) f32
    *acc += dot(*x, *w);                            // one FMA chain over all of k
    if (env.last(2)) *y = cast<T>(max(*acc, 0.f));  // (bm, bn) T
  }
};

}  // namespace tessera::kernels
