// A matrix product and what becomes of it before it is stored: bias, layer norm, GELU, ReLU,
// SwiGLU.
//
//   o = epilogue(x @ w)          kernels/epilogue.hpp
//
// SwiGLU makes two products of one block of x, with w and with v. On the grid of
// kernels/matmul.hpp.
#pragma once

#include "kernels/epilogue.hpp"
#include "kernels/matmul_bytes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"

namespace tessera::kernels {

template <class T>
struct MatmulEpilogue {
  static constexpr KernelInfo info{
      .name = "matmul_epilogue",
      .summary = "matrix product with bias, layer norm, GELU, ReLU or SwiGLU in the epilogue",
      .math =
          "h = x @ w + bias;  z = (h - mean_j h) rsqrt(var_j h + eps) gamma + beta, or h;  o = "
          "z (1 + erf(z / sqrt 2)) / 2, or by tanh, max(z, 0), z logistic(z) (x @ v), or z",
      .cites = "arXiv:1607.06450, arXiv:1606.08415, arXiv:2002.05202"};

  int m = 0;
  int n = 0;
  int k = 0;
  int epilogue = 0;
  float eps = 1e-5f;

  static constexpr auto sizes = params(
      size("m", &MatmulEpilogue::m, "rows of x and o"),
      size("n", &MatmulEpilogue::n, "columns of w and o"),
      size("k", &MatmulEpilogue::k, "columns of x, rows of w"),
      size("epilogue", &MatmulEpilogue::epilogue,
           "0: none; 1: gelu; 2: gelu by tanh; 3: swiglu; 4: relu; +8: layer norm; +16: bias"),
      size("eps", &MatmulEpilogue::eps, "of a layer norm: added to the variance"));
  static constexpr auto tiles =
      tile_names(tile("bm"), tile("bn"), tile("bk"), tile("ep", "epilogue"));
  static constexpr std::array cases{
      Case{"aligned, bias, gelu", {256, 256, 256, 17, 1e-5}, {128, 128, 128, 17}},
      Case{"ragged, gelu by tanh", {100, 200, 150, 2, 1e-5}, {64, 128, 128, 2}},
      Case{"swiglu, ragged", {200, 150, 260, 3, 1e-5}, {64, 128, 128, 3}},
      Case{"bias, layer norm, relu", {100, 200, 128, 28, 1e-5}, {64, 256, 128, 28}},
      Case{"bias, one column", {200, 100, 200, 16, 1e-5}, {64, 128, 128, 16}},
      Case{"degenerate", {1, 1, 1, 17, 1e-5}, {8, 128, 128, 17}}};

  const char* valid(Tiles t) const {
    if (t[3] != epilogue) return "a build has one epilogue: ep = epilogue";
    return Epilogue{epilogue}.fault(n, t[1]);
  }

  TESSERA_FN auto spec(auto bm, auto bn, auto bk, auto ep) const {
    auto right = [](auto, auto j, auto kk) { return at(kk, j); };
    auto row_vector = [](auto, auto j, auto) { return at(0, j); };
    const auto of_row = block(Int<1>{}, bn);
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(n, bn)).as("j"),
             arbitrary(ceil_div(k, bk)).as("k")),
        in<T>("x", shape(m, k), block(bm, bk), [](auto i, auto, auto kk) { return at(i, kk); })
            .pad(0),
        in<T>("w", shape(k, n), block(bk, bn), right).pad(0),
        in<T>("v", shape(k, n), block(bk, bn), right).pad(0).when(epilogue_has(ep, IsGated{})),
        in<float>("bias", shape(1, n), of_row, row_vector)
            .pad(0)
            .when(epilogue_has(ep, IsBiased{})),
        in<float>("gamma", shape(1, n), of_row, row_vector).when(epilogue_has(ep, IsNormed{})),
        in<float>("beta", shape(1, n), of_row, row_vector).when(epilogue_has(ep, IsNormed{})),
        out<T>("o", shape(m, n), block(bm, bn), [](auto i, auto j, auto) { return at(i, j); }),
        accum<float>("acc", bm, bn), accum<float>("up", bm, bn).when(Epilogue{epilogue}.gated()),
        accum<float>("tag", Int<1>{}, activation_tag(ep)).when(false));
  }

  /// A product's reads, of two right operands if gated; vectors of rows for every block of rows,
  /// unless one block of them is all and stays.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const auto reads = matmul_reads(m, n, k, t[0], t[1], t[2], target);
    const Epilogue e{epilogue};
    const bool stays = target.keeps_blocks && n <= t[1];
    const std::int64_t vectors = (e.biased() ? 1 : 0) + (e.normed() ? 2 : 0);
    return {(reads.left + (e.gated() ? 2 : 1) * reads.right) * kBytes<T> +
                (stays ? 1 : ceil_div(m, t[0])) * vectors * n * kBytes<float>,
            std::int64_t{m} * n * kBytes<T>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class W, class V, class Bias, class Gamma, class Beta, class O,
            class Acc, class Up, class Tag>
  TESSERA_FN void operator()(Env& env, X x, W w, V v, Bias bias, Gamma gamma, Beta beta, O o,
                             Acc acc, Up up, Tag tag) const {
    if (env.first(2)) {
      *acc = 0.f;                // (bm, bn) f32
      if (v.there()) *up = 0.f;  // (bm, bn) f32
    }
    *acc += dot(*x, *w);  // one FMA chain over all of k
    if (v.there()) *up += dot(*x, *v);
    if (env.last(2)) {
      finish({n, eps}, acc, up, v, bias, gamma, beta, tag);
      *o = cast<T>(*acc);  // (bm, bn) T
    }
  }
};

}  // namespace tessera::kernels
