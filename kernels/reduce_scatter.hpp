// The sum over devices, a part of it on each.
//
//   out_p = sum_d x_d[p]      x_d: n parts of rows x cols
//
// A ring: part p starts on device p + 1 and gathers a term at each of n - 1 steps. Sums are in f32
// and rounded to the element type at each step.
#pragma once

#include "kernels/ring.hpp"

namespace tessera::kernels {

template <class T>
struct ReduceScatter {
  static constexpr KernelInfo info{.name = "reduce_scatter",
                                   .summary = "reduce-scatter around a ring of devices",
                                   .math = "out_p[i,j] = sum_d x_d[p,i,j]"};

  int devices = 1;
  int rows = 0;
  int cols = 0;

  static constexpr auto sizes =
      params(size("devices", &ReduceScatter::devices, "devices of the ring"),
             size("rows", &ReduceScatter::rows, "rows of a part, a multiple of 16"),
             size("cols", &ReduceScatter::cols, "columns"));
  static constexpr auto tiles = tile_names(tile("br", "rows"), tile("bc", "cols"));
  static constexpr std::array cases{
      Case{"aligned", {4, 64, 256}, {64, 256}}, Case{"ragged, prime ring", {7, 16, 300}, {16, 300}},
      Case{"two devices", {2, 32, 128}, {32, 128}}, Case{"degenerate", {1, 16, 1}, {16, 1}}};

  const char* valid(Tiles t) const { return part_fault(t, rows, cols); }

  TESSERA_FN auto spec(auto br, auto bc) const {
    return tessera::spec(grid(arbitrary(1)), hbm_in<T>("x", shape(devices * rows, cols)),
                         hbm_out<T>("out", shape(rows, cols)), vmem<T>("sum", Int<2>{}, br, bc),
                         vmem<T>("arrived", Int<2>{}, br, bc), dma_sem("local"),
                         dma_sem("send", Int<2>{}), dma_sem("recv", Int<2>{}), sem("freed"));
  }

  /// Each device reads all its parts once and writes one; n - 1 parts go over each link.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t n = devices;
    const std::int64_t part = std::int64_t{rows} * cols * kBytes<T>;
    return {n * n * part, n * part, n * (n - 1) * part};
  }

  TESSERA_FN void operator()(auto& env, auto x, auto out, auto sum, auto arrived, auto local,
                             auto send, auto recv, auto freed) const {
    ring_barrier(env);
    const auto ring = ring_ways(env.device_id(), devices, 1, rows);
    const int slot = ring_reduce(ring, sum, arrived, send, recv, freed, [&](int distance, auto to) {
      const auto from = ring.source(0, distance) * rows;
      async_copy(x.slice(ds(from, rows), ds(0, cols)), to, local).wait();
    });
    async_copy(sum.slot(slot), out, local).wait();
  }
};

}  // namespace tessera::kernels
