// Layer normalisation and RMS normalisation of each row, of x alone or of a residual stream.
//
//   h = x + residual
//   y[i,j] = c[i,j] rsqrt(mean_j c[i,j]^2 + eps) gamma[j] + beta[j],   c = h - mean_j h
//
// RMS normalisation has no mean and no beta: c = h. Ba et al., arXiv:1607.06450; Zhang & Sennrich,
// arXiv:1910.07467. With a residual stream h is a result too, and y that of h before it is rounded.
// A block may be wider than the row: its tail is zero, and masked where the mean was taken off.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/rsqrt.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct NormRows {
  static constexpr KernelInfo info{
      .name = "norm_rows",
      .summary = "layer norm or RMS norm of each row, with a residual stream",
      .math =
          "h = x + residual;  c = h - mean_j h (RMS: c = h);  y = c rsqrt(mean_j c^2 + eps) "
          "gamma + beta",
      .cites = "arXiv:1607.06450, arXiv:1910.07467"};

  int m = 0;
  int n = 0;
  int rms = 0;
  int residual = 0;
  float eps = 1e-5f;

  static constexpr auto sizes =
      params(size("m", &NormRows::m, "rows"), size("n", &NormRows::n, "columns"),
             size("rms", &NormRows::rms, "1: RMS norm, without a mean and beta"),
             size("residual", &NormRows::residual, "1: x is added to a residual stream first"),
             size("eps", &NormRows::eps, "added to the mean square"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn", "n"));
  static constexpr std::array cases{Case{"aligned", {512, 512, 0, 0, 1e-5}, {32, 512}},
                                    Case{"RMS, residual", {256, 512, 1, 1, 1e-6}, {32, 512}},
                                    Case{"ragged", {41, 300, 0, 1, 1e-5}, {16, 384}},
                                    Case{"RMS, ragged", {41, 300, 1, 0, 1e-6}, {16, 384}},
                                    Case{"degenerate", {1, 1, 0, 0, 1e-5}, {1, 1}}};

  const char* valid(Tiles t) const {
    if (t[1] < n) return "bn must hold a whole row: bn >= n";
    return eps > 0 ? nullptr : "eps must be positive: a row may be all zero";
  }

  TESSERA_FN auto spec(auto bm, auto bn) const {
    auto rows = [](auto i) { return at(i, 0); };
    auto row_vector = [](auto) { return at(0, 0); };
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i")),
        in<T>("x", shape(m, n), block(bm, bn), rows).pad(0),
        in<T>("residual", shape(m, n), block(bm, bn), rows).pad(0).when(residual != 0),
        in<float>("gamma", shape(1, n), block(Int<1>{}, bn), row_vector),
        in<float>("beta", shape(1, n), block(Int<1>{}, bn), row_vector).when(rms == 0),
        out<T>("y", shape(m, n), block(bm, bn), rows),
        out<T>("h", shape(m, n), block(bm, bn), rows).when(residual != 0));
  }

  /// Each matrix once; gamma and beta stay, in each cell of a device that empties it.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const std::int64_t elems = std::int64_t{m} * n;
    const std::int64_t matrices = residual != 0 ? 2 : 1;
    const std::int64_t vectors = (rms != 0 ? 1 : 2) * (target.keeps_blocks ? 1 : ceil_div(m, t[0]));
    return {matrices * elems * kBytes<T> + vectors * n * kBytes<float>,
            matrices * elems * kBytes<T>};
  }

  TESSERA_FN void operator()(auto&, auto x, auto stream, auto gamma, auto beta, auto y,
                             auto h) const {
    const int columns = n;
    const float inverse_n = 1.f / static_cast<float>(n);
    auto c = load(cast<float>(*x));  // (bm, bn) f32
    if (residual != 0) {
      c = load(c + cast<float>(*stream));
      *h = cast<T>(c);  // (bm, bn) T
    }
    if (rms == 0) {
      c = load(where_at(
          c - row_sum(c) * inverse_n, [=](auto, auto j) { return j < columns; }, 0.f));
    }
    c = load(c * rsqrt(row_sum(c * c) * inverse_n + eps) * *gamma);
    if (rms == 0) c = load(c + *beta);
    *y = cast<T>(c);  // (bm, bn) T
  }
};

}  // namespace tessera::kernels
