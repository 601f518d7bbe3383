// Every device's shard to every device, around a ring.
//
//   out_d = concatenate(x_0, ..., x_{n-1})  on every device d
//
// n - 1 steps; at step s a device passes on the shard that it received at step s - 1.
#pragma once

#include "kernels/ring.hpp"

namespace tessera::kernels {

template <class T>
struct RingAllGather {
  static constexpr KernelInfo info{.name = "ring_all_gather",
                                   .summary = "all-gather around a ring of devices",
                                   .math = "out_d[p,i,j] = x_p[i,j] for every device d"};

  int devices = 1;
  int rows = 0;
  int cols = 0;

  static constexpr auto sizes =
      params(size("devices", &RingAllGather::devices, "devices of the ring"),
             size("rows", &RingAllGather::rows, "rows of a shard, a multiple of 16"),
             size("cols", &RingAllGather::cols, "columns"));
  static constexpr auto tiles = kNoTiles;
  static constexpr std::array cases{
      Case{"aligned", {4, 64, 256}, {}}, Case{"ragged, prime ring", {7, 16, 300}, {}},
      Case{"two devices", {2, 32, 128}, {}}, Case{"degenerate", {1, 16, 1}, {}}};

  const char* valid(Tiles) const { return rows % 16 == 0 ? nullptr : "rows is a multiple of 16"; }

  TESSERA_FN auto spec() const {
    return tessera::spec(grid(arbitrary(1)), hbm_in<T>("x", shape(rows, cols)),
                         hbm_out<T>("out", shape(devices * rows, cols)), dma_sem("local"),
                         dma_sem("send"), dma_sem("recv", greater(devices - 1, 1)));
  }

  /// Each device reads its shard, and n - 1 shards to pass on; it writes n, n - 1 of them from
  /// elsewhere.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t n = devices;
    const std::int64_t shard = std::int64_t{rows} * cols * kBytes<T>;
    return {n * n * shard, n * n * shard, n * (n - 1) * shard};
  }

  TESSERA_FN void operator()(auto& env, auto x, auto out, auto local, auto send, auto recv) const {
    const auto own = out.slice(ds(env.device_id() * rows, rows), ds(0, cols));
    async_copy(x, own, local).wait();
    ring_barrier(env);
    ring_gather(env, out, rows, cols, send, recv);
  }
};

}  // namespace tessera::kernels
