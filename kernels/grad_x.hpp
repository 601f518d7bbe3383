// The gradient of a dense ReLU layer by its input.
//
//   dx = (dy where y > 0, else 0) @ w^T          (y = max(x @ w, 0))
//
// The mask is applied to each block of dy as it arrives; the sum runs over the layer's outputs n.
#pragma once

#include "kernels/matmul_bytes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/greater.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

template <class T>
struct GradX {
  static constexpr KernelInfo info{.name = "grad_x",
                                   .summary = "gradient of matmul_relu by x",
                                   .math = "dx[i,k] = sum_j (y[i,j] > 0 ? dy[i,j] : 0) w[k,j]"};

  int m = 0;
  int n = 0;
  int k = 0;

  static constexpr auto sizes =
      params(size("m", &GradX::m, "rows of dy and dx"), size("n", &GradX::n, "columns of dy and w"),
             size("k", &GradX::k, "rows of w, columns of dx"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"), tile("bk"));
  static constexpr std::array cases{Case{"aligned", {512, 512, 256}, {128, 128, 128}},
                                    Case{"ragged", {200, 300, 260}, {128, 128, 128}},
                                    Case{"degenerate", {1, 1, 1}, {8, 128, 128}}};

  TESSERA_FN auto spec(auto bm, auto bn, auto bk) const {
    auto activation_block = [](auto i, auto, auto j) { return at(i, j); };
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(k, bk)).as("k"),
             arbitrary(ceil_div(n, bn)).as("j")),
        in<T>("dy", shape(m, n), block(bm, bn), activation_block).pad(0),
        in<T>("y", shape(m, n), block(bm, bn), activation_block).pad(0),
        in<T>("w", shape(k, n), block(bk, bn), [](auto, auto kk, auto j) { return at(kk, j); })
            .pad(0),
        out<T>("dx", shape(m, k), block(bm, bk), [](auto i, auto kk, auto) { return at(i, kk); }),
        accum<float>("acc", bm, bk));
  }

  /// An (m, n) x (n, k) product with two left operands.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const auto reads = matmul_reads(m, k, n, t[0], t[2], t[1], target);
    return {(2 * reads.left + reads.right) * kBytes<T>, std::int64_t{m} * k * kBytes<T>};
  }

  TESSERA_FN void operator()(auto& env, auto dy, auto y, auto w, auto dx, auto acc) const {
    if (env.first(2)) *acc = 0.f;                                           // (bm, bk) f32
    auto g = cast<T>(where(cast<float>(*y) > 0.f, cast<float>(*dy), 0.f));  // (bm, bn) T
    *acc += dot(g, transpose(*w));                                          // one FMA chain over n
    if (env.last(2)) *dx = cast<T>(*acc);                                   // (bm, bk) T
  }
};

}  // namespace tessera::kernels
