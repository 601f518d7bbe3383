// A scaled sum of two matrices, block by block. Replace it with your kernel.
//
//   o[i,j] = alpha x[i,j] + y[i,j]
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/mul.hpp"

template <class T>
struct MyKernel {
  static constexpr tessera::KernelInfo info{
      .name = "my_kernel", .summary = "a scaled sum", .math = "o[i,j] = alpha x[i,j] + y[i,j]"};

  int m = 0;
  int n = 0;
  float alpha = 1;

  static constexpr auto sizes = tessera::params(
      tessera::size("m", &MyKernel::m, "rows"), tessera::size("n", &MyKernel::n, "columns"),
      tessera::size("alpha", &MyKernel::alpha, "scale of x"));
  static constexpr auto tiles = tessera::tile_names(tessera::tile("bm"), tessera::tile("bn"));
  // Sizes, then tiles. The first case is the default; every case is a test.
  static constexpr std::array cases{tessera::Case{"aligned", {256, 512, 2}, {128, 128}},
                                    tessera::Case{"ragged", {41, 300, 2}, {16, 128}},
                                    tessera::Case{"degenerate", {1, 1, 2}, {8, 128}}};

  TESSERA_FN auto spec(auto bm, auto bn) const {
    using namespace tessera;
    auto tile_block = [](auto i, auto j) { return at(i, j); };
    return tessera::spec(grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(n, bn)).as("j")),
                         in<T>("x", shape(m, n), block(bm, bn), tile_block),
                         in<T>("y", shape(m, n), block(bm, bn), tile_block),
                         out<T>("o", shape(m, n), block(bm, bn), tile_block));
  }

  /// Derived by hand, checked against the memory model: each matrix once.
  tessera::Bytes hbm_bytes(tessera::Tiles, tessera::Target) const {
    const std::int64_t bytes = std::int64_t{m} * n * tessera::kBytes<T>;
    return {2 * bytes, bytes};
  }

  TESSERA_FN void operator()(auto&, auto x, auto y, auto o) const {
    using tessera::cast;
    *o = cast<T>(cast<float>(*x) * alpha + cast<float>(*y));  // (bm, bn)
  }
};
