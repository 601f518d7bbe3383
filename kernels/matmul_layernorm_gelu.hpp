// A matrix product, layer normalisation of its rows and GELU, fused: the row statistics are taken
// in the epilogue, from the accumulator.
//
//   h = x @ w,  z = (h - mean(h)) / sqrt(var(h) + eps) * gamma + beta,  o = z (1 + erf(z / sqrt 2))
//   / 2
//
// Layer normalisation: arXiv:1607.06450. GELU: arXiv:1606.08415. Blocks of o hold whole rows,
// possibly wider than the row: w's tail is zero, so the sum of h is exact; squares are masked.
#pragma once

#include "kernels/epilogue.hpp"
#include "kernels/matmul_bytes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"

namespace tessera::kernels {

template <class T>
struct MatmulLayernormGelu {
  static constexpr KernelInfo info{.name = "matmul_layernorm_gelu",
                                   .summary = "matrix product, layer norm of its rows, GELU",
                                   .math =
                                       "h = x @ w;  z = (h - mean_j h) rsqrt(var_j h + eps) gamma "
                                       "+ beta;  o = z (1 + erf(z / sqrt 2)) / 2",
                                   .cites = "arXiv:1607.06450, arXiv:1606.08415"};

  int m = 0;
  int n = 0;
  int k = 0;
  float eps = 1e-5f;

  static constexpr auto sizes =
      params(size("m", &MatmulLayernormGelu::m, "rows of x and o"),
             size("n", &MatmulLayernormGelu::n, "columns of w and o"),
             size("k", &MatmulLayernormGelu::k, "columns of x, rows of w"),
             size("eps", &MatmulLayernormGelu::eps, "added to the variance"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn", "n"), tile("bk"));
  static constexpr std::array cases{Case{"aligned", {512, 512, 512, 1e-5}, {128, 512, 128}},
                                    Case{"ragged", {100, 200, 260, 1e-5}, {64, 256, 128}},
                                    Case{"degenerate", {1, 1, 1, 1e-5}, {8, 1, 128}}};

  const char* valid(Tiles t) const {
    return t[1] < n ? "bn must hold a whole row: bn >= n" : nullptr;
  }

  TESSERA_FN auto spec(auto bm, auto bn, auto bk) const {
    auto row_vector = [](auto, auto) { return at(0, 0); };
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), arbitrary(ceil_div(k, bk)).as("k")),
        in<T>("x", shape(m, k), block(bm, bk), [](auto i, auto kk) { return at(i, kk); }).pad(0),
        in<T>("w", shape(k, n), block(bk, bn), [](auto, auto kk) { return at(kk, 0); }).pad(0),
        in<float>("gamma", shape(1, n), block(Int<1>{}, bn), row_vector),
        in<float>("beta", shape(1, n), block(Int<1>{}, bn), row_vector),
        out<T>("o", shape(m, n), block(bm, bn), [](auto i, auto) { return at(i, 0); }),
        accum<float>("acc", bm, bn));
  }

  /// A product with one column of blocks; gamma and beta stay, in each cell of a device that
  /// empties it.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const auto reads = matmul_reads(m, n, k, t[0], t[1], t[2], target);
    const std::int64_t vectors = target.keeps_blocks ? 1 : ceil_div(m, t[0]);
    return {(reads.left + reads.right) * kBytes<T> + 2 * vectors * n * kBytes<float>,
            std::int64_t{m} * n * kBytes<T>};
  }

  TESSERA_FN void operator()(auto& env, auto x, auto w, auto gamma, auto beta, auto o,
                             auto acc) const {
    if (env.first(1)) *acc = 0.f;  // (bm, bn) f32
    *acc += dot(*x, *w);           // one FMA chain over all of k
    if (env.last(1)) {
      auto region = env.scope("epilogue");
      LayerNorm{n, eps}(acc, gamma, beta);  // z: (bm, bn)
      Gelu{}(acc);                          // (bm, bn)
      *o = cast<T>(*acc);                   // (bm, bn) T
    }
  }
};

}  // namespace tessera::kernels
