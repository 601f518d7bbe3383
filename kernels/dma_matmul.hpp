// Matrix product that brings its own blocks: explicit double buffering over k.
//
//   o = x @ y
//
// x and y stay in HBM. At step k the blocks of step k + 1 start on their way into the other slot
// before the product waits for its own, so that transfers and products overlap. Ragged blocks land
// in slots that were zeroed first.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"

namespace tessera::kernels {

template <class T>
struct DmaMatmul {
  static constexpr KernelInfo info{.name = "dma_matmul",
                                   .summary = "matrix product, double-buffered by hand",
                                   .math = "o[i,j] = sum_k x[i,k] y[k,j]"};

  int m = 0;
  int n = 0;
  int k = 0;

  static constexpr auto sizes = params(size("m", &DmaMatmul::m, "rows of x and o"),
                                       size("n", &DmaMatmul::n, "columns of y and o"),
                                       size("k", &DmaMatmul::k, "columns of x, rows of y"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"), tile("bk"));
  static constexpr std::array cases{Case{"aligned", {512, 512, 512}, {128, 128, 128}},
                                    Case{"ragged", {200, 300, 260}, {128, 128, 128}},
                                    Case{"one k block", {256, 384, 128}, {128, 128, 128}},
                                    Case{"degenerate", {1, 1, 1}, {16, 128, 128}}};

  TESSERA_FN auto spec(auto bm, auto bn, auto bk) const {
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(n, bn)).as("j"),
             arbitrary(ceil_div(k, bk)).as("k")),
        hbm_in<T>("x", shape(m, k)), hbm_in<T>("y", shape(k, n)),
        out<T>("o", shape(m, n), block(bm, bn), [](auto i, auto j, auto) { return at(i, j); }),
        vmem<T>("xbuf", Int<2>{}, bm, bk), vmem<T>("ybuf", Int<2>{}, bk, bn),
        dma_sem("sems", Int<4>{}), accum<float>("acc", bm, bn));
  }

  /// A block of each at every step: nothing is kept.
  Bytes hbm_bytes(Tiles t, Target) const {
    const std::int64_t reads =
        std::int64_t{m} * k * ceil_div(n, t[1]) + std::int64_t{k} * n * ceil_div(m, t[0]);
    return {reads * kBytes<T>, std::int64_t{m} * n * kBytes<T>};
  }

  /// The copy of the part of block (row, col) that lies in the array, into a slot.
  TESSERA_FN static auto block_copy(auto array, Shape extents, auto slot, auto sem, auto row,
                                    auto col) {
    const auto rows = lesser(slot.rows, static_cast<int>(extents[0]) - row * slot.rows);
    const auto cols = lesser(slot.cols, static_cast<int>(extents[1]) - col * slot.cols);
    return make_async_copy(array.slice(ds(row * slot.rows, rows), ds(col * slot.cols, cols)),
                           slot.slice(ds(0, rows), ds(0, cols)), sem);
  }

  TESSERA_FN void operator()(auto& env, auto x, auto y, auto o, auto xbuf, auto ybuf, auto sems,
                             auto acc) const {
    const auto i = env.program_id(0);
    const auto j = env.program_id(1);
    const auto x_copy = [&](auto kk) {
      return block_copy(x, shape(m, k), xbuf.slot(kk % 2), sems[kk % 2], i, kk);
    };
    const auto y_copy = [&](auto kk) {
      return block_copy(y, shape(k, n), ybuf.slot(kk % 2), sems[2 + kk % 2], kk, j);
    };
    const auto start = [&](auto kk) {
      const auto xs = xbuf.slot(kk % 2);
      const auto ys = ybuf.slot(kk % 2);
      if ((i + 1) * xs.rows > m || (kk + 1) * xs.cols > k) *xs = T(0.f);
      if ((kk + 1) * ys.rows > k || (j + 1) * ys.cols > n) *ys = T(0.f);
      x_copy(kk).start();
      y_copy(kk).start();
    };
    const auto kk = env.program_id(2);
    if (env.first(2)) {
      *acc = 0.f;  // (bm, bn) f32
      start(kk);
    }
    if (!env.last(2)) start(kk + 1);
    x_copy(kk).wait();
    y_copy(kk).wait();
    *acc += dot(*xbuf.slot(kk % 2), *ybuf.slot(kk % 2));
    if (env.last(2)) *o = cast<T>(*acc);  // (bm, bn) T
  }
};

}  // namespace tessera::kernels
