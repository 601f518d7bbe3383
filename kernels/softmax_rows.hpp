// Row softmax, one block of whole rows per grid step.
//
//   y[i,j] = exp(x[i,j] - m[i]) / sum_k exp(x[i,k] - m[i]),   m[i] = max_k x[i,k]
//
// Shifting by m keeps every exponent <= 0. Milakov & Gimelshein, arXiv:1805.02867. A block may be
// wider than the row: its tail is -inf, which adds nothing to either reduction.
#pragma once

#include <limits>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"

namespace tessera::kernels {

template <class T>
struct SoftmaxRows {
  static constexpr KernelInfo info{
      .name = "softmax_rows",
      .summary = "softmax of each row",
      .math = "y[i,j] = exp(x[i,j] - m[i]) / sum_k exp(x[i,k] - m[i]),  m[i] = max_k x[i,k]",
      .cites = "arXiv:1805.02867"};

  int m = 0;
  int n = 0;

  static constexpr auto sizes =
      params(size("m", &SoftmaxRows::m, "rows"), size("n", &SoftmaxRows::n, "columns"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn", "n"));
  static constexpr std::array cases{Case{"aligned", {1024, 1024}, {128, 1024}},
                                    Case{"ragged", {41, 300}, {16, 384}},
                                    Case{"degenerate", {1, 1}, {1, 1}}};

  const char* valid(Tiles t) const {
    return t[1] < n ? "bn must hold a whole row: bn >= n" : nullptr;
  }

  TESSERA_FN auto spec(auto bm, auto bn) const {
    auto row_block = [](auto i) { return at(i, 0); };
    return tessera::spec(grid(parallel(ceil_div(m, bm)).as("i")),
                         in<T>("x", shape(m, n), block(bm, bn), row_block)
                             .pad(-std::numeric_limits<double>::infinity()),
                         out<T>("y", shape(m, n), block(bm, bn), row_block));
  }

  /// x in once, y out once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t elems = std::int64_t{m} * n;
    return {elems * kBytes<T>, elems * kBytes<T>};
  }

  TESSERA_FN void operator()(auto&, auto x, auto y) const {
    auto v = cast<float>(*x);      // (bm, bn) f32
    auto e = exp(v - row_max(v));  // (bm, bn) f32, in [0, 1]
    *y = cast<T>(e / row_sum(e));  // (bm, bn) T
  }
};

}  // namespace tessera::kernels
