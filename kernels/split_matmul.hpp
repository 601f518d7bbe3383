// Matrix product whose k is cut into runs, for products with few blocks of o and a long k.
//
//   part[s] = x[:, k_s : k_(s+1)] @ y[k_s : k_(s+1), :],   k_s = block_k floor(s blocks / splits)
//
// m = 16 rows make 64 cells of 8,192 columns, for the 132 multiprocessors of an H100: cells of
// their own take the runs. split_sum adds the parts in their order: the same bits from every
// launch.
#pragma once

#include "kernels/matmul_bytes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/dot.hpp"

namespace tessera::kernels {

template <class T>
struct SplitMatmul {
  static constexpr KernelInfo info{.name = "split_matmul",
                                   .summary = "matrix product in parts, each of a run of k",
                                   .math = "part[s,i,j] = sum_k x[i,k] y[k,j], k of run s"};

  int m = 0;
  int n = 0;
  int k = 0;
  int splits = 1;

  int block_k = 0;  ///< a run is whole blocks of k

  static constexpr auto sizes =
      params(size("m", &SplitMatmul::m, "rows of x and o"),
             size("n", &SplitMatmul::n, "columns of y and o"),
             size("k", &SplitMatmul::k, "columns of x, rows of y"),
             size("splits", &SplitMatmul::splits, "runs of k, each with cells and a part"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"), tile("bk"));
  static constexpr std::array cases{Case{"aligned", {16, 256, 1024, 4}, {16, 128, 128}},
                                    Case{"ragged", {41, 200, 700, 3}, {48, 128, 128}},
                                    Case{"one run", {128, 256, 256, 1}, {64, 128, 128}},
                                    Case{"a block a run", {64, 128, 640, 5}, {64, 128, 128}},
                                    Case{"degenerate", {1, 1, 1, 1}, {8, 128, 128}}};

  const char* valid(Tiles t) const {
    return splits < 1 || splits > ceil_div(k, t[2])
               ? "splits is 1 or more, and no more than k has blocks"
               : nullptr;
  }

  /// The first block of a run.
  TESSERA_FN auto first_block(auto split, int bk) const { return split * ceil_div(k, bk) / splits; }

  TESSERA_FN auto spec(auto bm, auto bn, auto bk) const {
    const auto self = *this;
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(n, bn)).as("j"),
             parallel(splits).as("split"),
             arbitrary(
                 [self, bk](auto, auto, auto split) { return self.first_block(split, bk); },
                 [self, bk](auto, auto, auto split) { return self.first_block(split + 1, bk); })
                 .as("k")),
        in<T>("x", shape(m, k), block(bm, bk),
              [](auto i, auto, auto, auto kk) { return at(i, kk); })
            .pad(0),
        in<T>("y", shape(k, n), block(bk, bn),
              [](auto, auto j, auto, auto kk) { return at(kk, j); })
            .pad(0),
        out<float>("part", shape(splits, m, n), block(squeezed, bm, bn),
                   [](auto i, auto j, auto split, auto) { return at(split, i, j); }),
        accum<float>("acc", bm, bn));
  }

  /// Inputs as matmul reads them: the runs of a block of o follow one another.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const auto reads = matmul_reads(m, n, k, t[0], t[1], t[2], target);
    return {(reads.left + reads.right) * kBytes<T>, std::int64_t{splits} * m * n * kBytes<float>};
  }

  template <class Host>
  void prepare(Host&, Tiles t) {
    block_k = t[2];
  }

  TESSERA_FN void operator()(auto& env, auto x, auto y, auto part, auto acc) const {
    if (env.first(3)) *acc = 0.f;   // (bm, bn) f32
    *acc += dot(*x, *y);            // one FMA chain over the run
    if (env.last(3)) *part = *acc;  // (bm, bn) f32
  }
};

}  // namespace tessera::kernels
