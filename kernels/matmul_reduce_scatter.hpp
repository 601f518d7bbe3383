// A matrix product whose parts are summed over devices as they are made.
//
//   out_p = sum_d x_d[p] @ w_d      x_d: n parts of m rows
//
// The product of the next part runs while the sum of the last one is on its way. As the collective
// matmul of Wang et al., ASPLOS 2023; both ways round, half of the rows of a part are summed each
// way, and a link has half the bytes.
#pragma once

#include "kernels/ring.hpp"
#include "sim/ops/dot.hpp"

namespace tessera::kernels {

template <class T>
struct MatmulReduceScatter {
  static constexpr KernelInfo info{.name = "matmul_reduce_scatter",
                                   .summary = "matrix product overlapped with a reduce-scatter",
                                   .math = "out_p[i,j] = sum_d sum_k x_d[p,i,k] w_d[k,j]",
                                   .cites = "doi:10.1145/3567955.3567959"};

  int devices = 1;
  int m = 0;
  int n = 0;
  int k = 0;
  int ways = 1;

  static constexpr auto sizes = params(
      size("devices", &MatmulReduceScatter::devices, "devices of the ring"),
      size("m", &MatmulReduceScatter::m, "rows of a part, a multiple of 16"),
      size("n", &MatmulReduceScatter::n, "columns of w and out"),
      size("k", &MatmulReduceScatter::k, "columns of a device's x, rows of its w"),
      size("ways", &MatmulReduceScatter::ways, "2: half of the rows of a part go each way round"));
  static constexpr auto tiles = tile_names(tile("bm", "m"), tile("bn", "n"), tile("bk", "k"));
  static constexpr std::array cases{
      Case{"aligned", {4, 64, 128, 256, 1}, {64, 128, 256}},
      Case{"ragged, prime ring", {7, 16, 100, 300, 1}, {16, 100, 300}},
      Case{"two devices", {2, 32, 128, 128, 1}, {32, 128, 128}},
      Case{"both ways", {4, 64, 128, 256, 2}, {64, 128, 256}},
      Case{"both ways, ragged, prime ring", {5, 32, 100, 300, 2}, {32, 100, 300}},
      Case{"degenerate", {1, 16, 1, 1, 1}, {16, 1, 1}}};

  const char* valid(Tiles t) const { return shard_fault(t, m, n, k, ways); }

  TESSERA_FN auto spec(auto bm, auto bn, auto bk) const {
    return tessera::spec(grid(arbitrary(1)), hbm_in<T>("x", shape(devices * m, k)),
                         in<T>("w", shape(k, n), block(bk, bn), [](auto) { return at(0, 0); }),
                         hbm_out<T>("out", shape(m, n)), vmem<T>("xbuf", bm, bk),
                         vmem<float>("sum", Int<2>{}, bm, bn),
                         vmem<float>("arrived", Int<2>{}, bm, bn), vmem<T>("result", bm, bn),
                         dma_sem("sems", Int<9>{}), sem("freed", Int<2>{}));
  }

  /// x and w once per device; a part of out each; n - 1 parts in f32 over each link, or
  /// half of each both ways.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t d = devices;
    return {d * (d * m * k + std::int64_t{k} * n) * kBytes<T>, d * m * n * kBytes<T>,
            d * (d - 1) * m * n * kBytes<float>};
  }

  // nvcc 13.0 crashes on ten `auto` parameters.
  template <class Env, class X, class W, class Out, class Part, class Slots, class Result,
            class Sems, class Freed>
  TESSERA_FN void operator()(Env& env, X x, W w, Out out, Part xbuf, Slots sum, Slots arrived,
                             Result result, Sems sems, Freed freed) const {
    ring_barrier(env);
    const auto ring = ring_ways(env.device_id(), devices, ways, m);
    const int slot = ring_reduce(
        ring, sum, arrived, SemsFrom<Sems>{sems, 1}, SemsFrom<Sems>{sems, 5}, freed,
        [&](int distance, auto to) {
          for (int way = 0; way < ways; ++way) {
            const auto from = ring.source(way, distance) * m + ring.first(way);
            async_copy(x.slice(ds(from, ring.each()), ds(0, k)), ring.half(xbuf, way), sems[0])
                .wait();
          }
          *to = dot(*xbuf, *w);  // (m, n) f32
        });
    *result = cast<T>(*sum.slot(slot));
    async_copy(result, out, sems[0]).wait();
  }
};

}  // namespace tessera::kernels
