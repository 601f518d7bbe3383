// Parts of a matrix product over runs of k, added in their order.
//
//   o = sum_s part[s]
//
// What quantised_matmul gives with splits > 1: few rows of x make few blocks of o, and their k is
// cut into runs, so that all cores have cells. The order is that of the runs: the same bits from
// every launch.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"

namespace tessera::kernels {

template <class T>
struct SplitSum {
  static constexpr KernelInfo info{.name = "split_sum",
                                   .summary = "parts of a product, added in their order",
                                   .math = "o[i,j] = sum_s part[s,i,j]"};

  int parts = 1;
  int m = 0;
  int n = 0;

  static constexpr auto sizes =
      params(size("parts", &SplitSum::parts, "parts"), size("m", &SplitSum::m, "rows of o"),
             size("n", &SplitSum::n, "columns of o"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"));
  static constexpr std::array cases{Case{"aligned", {4, 16, 512}, {8, 128}},
                                    Case{"ragged", {3, 13, 200}, {8, 128}},
                                    Case{"degenerate", {1, 1, 1}, {8, 128}}};

  TESSERA_FN auto spec(auto bm, auto bn) const {
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(n, bn)).as("j"),
             arbitrary(parts).as("part")),
        in<float>("part", shape(parts, m, n), block(squeezed, bm, bn),
                  [](auto i, auto j, auto s) { return at(s, i, j); })
            .pad(0),
        out<T>("o", shape(m, n), block(bm, bn), [](auto i, auto j, auto) { return at(i, j); }),
        accum<float>("acc", bm, bn));
  }

  /// Everything once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t all = std::int64_t{m} * n;
    return {parts * all * kBytes<float>, all * kBytes<T>};
  }

  TESSERA_FN void operator()(auto& env, auto part, auto o, auto acc) const {
    if (env.first(2)) *acc = 0.f;         // (bm, bn) f32
    *acc += *part;                        // parts in increasing order
    if (env.last(2)) *o = cast<T>(*acc);  // (bm, bn) T
  }
};

}  // namespace tessera::kernels
