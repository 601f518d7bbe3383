// Sum of two vectors, one block per grid step.
//
//   o[i] = x[i] + y[i]
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"

namespace tessera::kernels {

template <class T>
struct AddVectors {
  static constexpr KernelInfo info{
      .name = "add_vectors", .summary = "sum of two vectors", .math = "o[i] = x[i] + y[i]"};

  int n = 0;

  static constexpr auto sizes = params(size("n", &AddVectors::n, "elements"));
  static constexpr auto tiles = tile_names(tile("bn"));
  static constexpr std::array cases{Case{"aligned", {1 << 20}, {8192}},
                                    Case{"ragged", {10'000}, {1024}}, Case{"degenerate", {1}, {1}}};

  TESSERA_FN auto spec(auto bn) const {
    auto element_block = [](auto i) { return at(i); };
    return tessera::spec(grid(parallel(ceil_div(n, bn)).as("i")),
                         in<T>("x", shape(n), block(bn), element_block),
                         in<T>("y", shape(n), block(bn), element_block),
                         out<T>("o", shape(n), block(bn), element_block));
  }

  /// Each vector once.
  Bytes hbm_bytes(Tiles, Target) const { return {2 * kBytes<T> * n, kBytes<T> * n}; }

  TESSERA_FN void operator()(auto&, auto x, auto y, auto o) const {
    *o = cast<T>(cast<float>(*x) + cast<float>(*y));  // (1, bn)
  }
};

}  // namespace tessera::kernels
