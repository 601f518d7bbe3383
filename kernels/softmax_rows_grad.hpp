// The gradient of row softmax (kernels/softmax_rows.hpp), from its output.
//
//   dx[i,j] = y[i,j] (dy[i,j] - sum_k dy[i,k] y[i,k])
//
// A block may be wider than the row: its tail is zero.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"

namespace tessera::kernels {

template <class T>
struct SoftmaxRowsGrad {
  static constexpr KernelInfo info{.name = "softmax_rows_grad",
                                   .summary = "gradient of softmax_rows",
                                   .math = "dx[i,j] = y[i,j] (dy[i,j] - sum_k dy[i,k] y[i,k])"};

  int m = 0;
  int n = 0;

  static constexpr auto sizes =
      params(size("m", &SoftmaxRowsGrad::m, "rows"), size("n", &SoftmaxRowsGrad::n, "columns"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn", "n"));
  static constexpr std::array cases{Case{"aligned", {512, 1024}, {16, 1024}},
                                    Case{"ragged", {41, 300}, {16, 384}},
                                    Case{"degenerate", {1, 1}, {1, 1}}};

  const char* valid(Tiles t) const {
    return t[1] < n ? "bn must hold a whole row: bn >= n" : nullptr;
  }

  TESSERA_FN auto spec(auto bm, auto bn) const {
    auto row_block = [](auto i) { return at(i, 0); };
    return tessera::spec(grid(parallel(ceil_div(m, bm)).as("i")),
                         in<T>("dy", shape(m, n), block(bm, bn), row_block).pad(0),
                         in<T>("y", shape(m, n), block(bm, bn), row_block).pad(0).uniform(0, 1),
                         out<T>("dx", shape(m, n), block(bm, bn), row_block));
  }

  /// Each matrix once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t elems = std::int64_t{m} * n;
    return {2 * elems * kBytes<T>, elems * kBytes<T>};
  }

  TESSERA_FN void operator()(auto&, auto dy, auto y, auto dx) const {
    auto p = load(cast<float>(*y));           // (bm, bn) f32
    auto g = load(cast<float>(*dy));          // (bm, bn) f32
    *dx = cast<T>(p * (g - row_sum(g * p)));  // (bm, bn) T
  }
};

}  // namespace tessera::kernels
