// The gradient of a dense ReLU layer by its weights.
//
//   dw = x^T @ (dy where y > 0, else 0)          (y = max(x @ w, 0))
//
// The sum runs over the batch m, which is the grid's innermost dimension.
#pragma once

#include "kernels/matmul_bytes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/greater.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

template <class T>
struct GradW {
  static constexpr KernelInfo info{.name = "grad_w",
                                   .summary = "gradient of matmul_relu by w",
                                   .math = "dw[k,j] = sum_i x[i,k] (y[i,j] > 0 ? dy[i,j] : 0)"};

  int m = 0;
  int n = 0;
  int k = 0;

  static constexpr auto sizes =
      params(size("m", &GradW::m, "rows of x and dy"), size("n", &GradW::n, "columns of dy and dw"),
             size("k", &GradW::k, "columns of x, rows of dw"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"), tile("bk"));
  static constexpr std::array cases{Case{"aligned", {512, 256, 512}, {64, 128, 128}},
                                    Case{"ragged", {200, 300, 260}, {64, 128, 128}},
                                    Case{"degenerate", {1, 1, 1}, {8, 128, 128}}};

  TESSERA_FN auto spec(auto bm, auto bn, auto bk) const {
    auto activation_block = [](auto, auto j, auto i) { return at(i, j); };
    return tessera::spec(
        grid(parallel(ceil_div(k, bk)).as("k"), parallel(ceil_div(n, bn)).as("j"),
             arbitrary(ceil_div(m, bm)).as("i")),
        in<T>("x", shape(m, k), block(bm, bk), [](auto kk, auto, auto i) { return at(i, kk); })
            .pad(0),
        in<T>("dy", shape(m, n), block(bm, bn), activation_block).pad(0),
        in<T>("y", shape(m, n), block(bm, bn), activation_block).pad(0),
        out<T>("dw", shape(k, n), block(bk, bn), [](auto kk, auto j, auto) { return at(kk, j); }),
        vmem<T>("g", bm, bn), accum<float>("acc", bk, bn));
  }

  /// A (k, m) x (m, n) product with two right operands.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const auto reads = matmul_reads(k, n, m, t[2], t[1], t[0], target);
    return {(reads.left + 2 * reads.right) * kBytes<T>, std::int64_t{k} * n * kBytes<T>};
  }

  TESSERA_FN void operator()(auto& env, auto x, auto dy, auto y, auto dw, auto g, auto acc) const {
    if (env.first(2)) *acc = 0.f;                                       // (bk, bn) f32
    *g = cast<T>(where(cast<float>(*y) > 0.f, cast<float>(*dy), 0.f));  // (bm, bn) T
    *acc += dot(transpose(*x), *g);                                     // one FMA chain over m
    if (env.last(2)) *dw = cast<T>(*acc);                               // (bk, bn) T
  }
};

}  // namespace tessera::kernels
