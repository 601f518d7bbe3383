// The sum over devices, on every device: a reduce-scatter, then an all-gather.
//
//   out_e = sum_d x_d  on every device e      x_d: n parts of rows x cols
#pragma once

#include "kernels/ring.hpp"

namespace tessera::kernels {

template <class T>
struct AllReduce {
  static constexpr KernelInfo info{.name = "all_reduce",
                                   .summary = "all-reduce around a ring of devices",
                                   .math = "out_e[i,j] = sum_d x_d[i,j] for every device e"};

  int devices = 1;
  int rows = 0;
  int cols = 0;

  static constexpr auto sizes = params(
      size("devices", &AllReduce::devices, "devices of the ring"),
      size("rows", &AllReduce::rows, "rows of a part, a multiple of 16; x has devices parts"),
      size("cols", &AllReduce::cols, "columns"));
  static constexpr auto tiles = tile_names(tile("br", "rows"), tile("bc", "cols"));
  static constexpr std::array cases{
      Case{"aligned", {4, 64, 256}, {64, 256}}, Case{"ragged, prime ring", {5, 16, 300}, {16, 300}},
      Case{"two devices", {2, 32, 128}, {32, 128}}, Case{"degenerate", {1, 16, 1}, {16, 1}}};

  const char* valid(Tiles t) const { return part_fault(t, rows, cols); }

  TESSERA_FN auto spec(auto br, auto bc) const {
    return tessera::spec(grid(arbitrary(1)), hbm_in<T>("x", shape(devices * rows, cols)),
                         hbm_out<T>("out", shape(devices * rows, cols)),
                         vmem<T>("sum", Int<2>{}, br, bc), vmem<T>("arrived", Int<2>{}, br, bc),
                         dma_sem("local"), dma_sem("send", Int<3>{}), dma_sem("recv", devices + 1),
                         sem("freed"));
  }

  /// reduce_scatter's and ring_all_gather's, but for the shard that is already in place.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t n = devices;
    const std::int64_t part = std::int64_t{rows} * cols * kBytes<T>;
    return {n * n * part + n * (n - 1) * part, n * n * part, 2 * n * (n - 1) * part};
  }

  // nvcc 13.0 crashes on ten `auto` parameters.
  template <class Env, class X, class Out, class Slots, class Sems, class Freed>
  TESSERA_FN void operator()(Env& env, X x, Out out, Slots sum, Slots arrived, Sems local,
                             Sems send, Sems recv, Freed freed) const {
    ring_barrier(env);
    const auto ring = ring_ways(env.device_id(), devices, 1, rows);
    const int slot = ring_reduce(ring, sum, arrived, send, recv, freed, [&](int distance, auto to) {
      const auto from = ring.source(0, distance) * rows;
      async_copy(x.slice(ds(from, rows), ds(0, cols)), to, local).wait();
    });
    const auto own = out.slice(ds(env.device_id() * rows, rows), ds(0, cols));
    async_copy(sum.slot(slot), own, local).wait();
    ring_gather(env, out, rows, cols, send[2], SemsFrom<Sems>{recv, 2});
  }
};

}  // namespace tessera::kernels
