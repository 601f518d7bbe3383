// The gradients of layer normalisation and of RMS normalisation (kernels/norm_rows.hpp), from the
// rows h that were normalised.
//
//   z[i,j] = c[i,j] s[i],   s = rsqrt(mean_j c^2 + eps),   c = h - mean_j h (RMS: c = h)
//   g = dy gamma,   dh = s (g - mean_j g - z mean_j(g z)) + dh_out      (RMS: without mean_j g)
//   dgamma[j] = sum_i dy[i,j] z[i,j],   dbeta[j] = sum_i dy[i,j]
//
// Ba et al., arXiv:1607.06450; Zhang & Sennrich, arXiv:1910.07467. The statistics are taken again:
// the rows are here anyway. dh is the gradient of x and of the residual stream; dh_out comes from
// what else reads h. Blocks of rows are divided among `parts` cells, and each sums its own: the
// rows at one place of its blocks in order, then those bm sums. parts = 1 gives dgamma itself, more
// give partial sums for more cores.
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
struct NormRowsGrad {
  static constexpr KernelInfo info{
      .name = "norm_rows_grad",
      .summary = "gradients of layer norm and RMS norm",
      .math =
          "g = dy gamma;  dh = s (g - mean_j g - z mean_j(g z)) + dh_out;  dgamma = sum_i dy "
          "z;  dbeta = sum_i dy",
      .cites = "arXiv:1607.06450, arXiv:1910.07467"};
  static constexpr bool exchanges = true;
  static constexpr bool multiplies = false;

  int m = 0;
  int n = 0;
  int parts = 1;
  int rms = 0;
  int residual = 0;
  float eps = 1e-5f;

  int block_rows = 1;  ///< bm, which the rows of a part depend on

  static constexpr auto sizes =
      params(size("m", &NormRowsGrad::m, "rows"), size("n", &NormRowsGrad::n, "columns"),
             size("parts", &NormRowsGrad::parts, "partial sums of dgamma and dbeta"),
             size("rms", &NormRowsGrad::rms, "1: RMS norm, without a mean and beta"),
             size("residual", &NormRowsGrad::residual, "1: h has another reader, dh_out is added"),
             size("eps", &NormRowsGrad::eps, "added to the mean square"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn", "n"), tile("added", "residual"));
  static constexpr std::array cases{Case{"aligned", {256, 1024, 4, 0, 0, 1e-5}, {8, 1024, 0}},
                                    Case{"RMS, residual", {256, 512, 1, 1, 1, 1e-6}, {8, 512, 1}},
                                    Case{"ragged", {75, 300, 2, 0, 1, 1e-5}, {8, 384, 1}},
                                    Case{"RMS, ragged", {41, 300, 1, 1, 0, 1e-6}, {8, 384, 0}},
                                    Case{"degenerate", {1, 1, 1, 0, 0, 1e-5}, {1, 1, 0}}};

  const char* valid(Tiles t) const {
    if (t[2] != residual) return "a build adds dh_out, or does not: added = residual, 0 or 1";
    if (t[1] < n) return "bn must hold a whole row: bn >= n";
    if (parts < 1 || parts > ceil_div(m, t[0])) return "each part has a block of rows at least";
    return eps > 0 ? nullptr : "eps must be positive: a row may be all zero";
  }

  TESSERA_FN auto spec(auto bm, auto bn, auto added) const {
    const int blocks = ceil_div(m, bm);
    const int of = parts;
    auto rows = [](auto, auto i) { return at(i, 0); };
    auto row_vector = [](auto, auto) { return at(0, 0); };
    auto part = [](auto p, auto) { return at(p, 0, 0); };
    return tessera::spec(
        grid(parallel(parts).as("part"),
             arbitrary([blocks, of](auto p) { return p * blocks / of; },
                       [blocks, of](auto p) { return (p + 1) * blocks / of; })
                 .as("i")),
        in<T>("dy", shape(m, n), block(bm, bn), rows).pad(0),
        in<T>("h", shape(m, n), block(bm, bn), rows).pad(0),
        in<float>("gamma", shape(1, n), block(Int<1>{}, bn), row_vector).pad(0),
        in<T>("dh_out", shape(m, n), block(bm, bn), rows).when(added),
        out<T>("dh", shape(m, n), block(bm, bn), rows),
        out<float>("dgamma", shape(parts, 1, n), block(squeezed, Int<1>{}, bn), part),
        out<float>("dbeta", shape(parts, 1, n), block(squeezed, Int<1>{}, bn), part).when(rms == 0),
        accum<float>("dgamma_sum", bm, bn), accum<float>("dbeta_sum", bm, bn));
  }

  /// Each matrix once; gamma stays, in each cell of a device that empties it.
  Bytes hbm_bytes(Tiles, Target target) const {
    const std::int64_t elems = std::int64_t{m} * n;
    const std::int64_t vectors = target.keeps_blocks ? 1 : parts;
    const std::int64_t sums = (rms != 0 ? 1 : 2) * std::int64_t{parts};
    return {(residual != 0 ? 3 : 2) * elems * kBytes<T> + vectors * n * kBytes<float>,
            elems * kBytes<T> + sums * n * kBytes<float>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Dy, class H, class Gamma, class DhOut, class Dh, class Dgamma,
            class Dbeta, class GammaSum, class BetaSum>
  TESSERA_FN void operator()(Env& env, Dy dy, H h, Gamma gamma, DhOut dh_out, Dh dh, Dgamma dgamma,
                             Dbeta dbeta, GammaSum dgamma_sum, BetaSum dbeta_sum) const {
    const int columns = n;
    const float inverse_n = 1.f / static_cast<float>(n);
    if (env.first(1)) {
      *dgamma_sum = 0.f;  // (bm, bn) f32
      *dbeta_sum = 0.f;   // (bm, bn) f32
    }
    auto z = load(cast<float>(*h));  // (bm, bn) f32
    if (rms == 0) {
      z = load(z - row_sum(z) * inverse_n);
      if (columns < h.cols) {
        z = where_at(
            z, [=](auto, auto j) { return j < columns; }, 0.f);
      }
    }
    const auto s = load(rsqrt(row_sum(z * z) * inverse_n + eps));  // (bm, 1)
    z = load(z * s);
    *dgamma_sum += cast<float>(*dy) * z;
    if (rms == 0) *dbeta_sum += cast<float>(*dy);
    auto g = load(cast<float>(*dy) * *gamma);             // (bm, bn) f32
    const auto along = load(row_sum(g * z) * inverse_n);  // (bm, 1)
    if (rms == 0) g = load(g - row_sum(g) * inverse_n);
    g = load((g - z * along) * s);
    if (dh_out.there()) g = load(g + cast<float>(*dh_out));
    *dh = cast<T>(g);  // (bm, bn) T
    if (env.last(1)) {
      *dgamma = col_sum(*dgamma_sum);  // (1, bn) f32
      if (rms == 0) *dbeta = col_sum(*dbeta_sum);
    }
  }

  template <class Host>
  void prepare(Host&, Tiles t) {
    block_rows = t[0];
  }
  /// Of a part.
  int first_row(int part) const {
    return lesser(part * ceil_div(m, block_rows) / parts * block_rows, m);
  }
};

}  // namespace tessera::kernels
