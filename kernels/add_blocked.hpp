// Sum of two matrices, block by block.
//
//   o[i,j] = x[i,j] + y[i,j]
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"

namespace tessera::kernels {

template <class T>
struct AddBlocked {
  static constexpr KernelInfo info{
      .name = "add_blocked", .summary = "sum of two matrices", .math = "o[i,j] = x[i,j] + y[i,j]"};

  int m = 0;
  int n = 0;

  static constexpr auto sizes =
      params(size("m", &AddBlocked::m, "rows"), size("n", &AddBlocked::n, "columns"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"));
  static constexpr std::array cases{Case{"aligned", {1024, 2048}, {256, 512}},
                                    Case{"ragged", {41, 300}, {16, 128}},
                                    Case{"degenerate", {1, 1}, {8, 128}}};

  TESSERA_FN auto spec(auto bm, auto bn) const {
    auto tile_block = [](auto i, auto j) { return at(i, j); };
    return tessera::spec(grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(n, bn)).as("j")),
                         in<T>("x", shape(m, n), block(bm, bn), tile_block),
                         in<T>("y", shape(m, n), block(bm, bn), tile_block),
                         out<T>("o", shape(m, n), block(bm, bn), tile_block));
  }

  /// Each matrix once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t elems = std::int64_t{m} * n;
    return {2 * elems * kBytes<T>, elems * kBytes<T>};
  }

  TESSERA_FN void operator()(auto&, auto x, auto y, auto o) const {
    *o = cast<T>(cast<float>(*x) + cast<float>(*y));  // (bm, bn)
  }
};

}  // namespace tessera::kernels
