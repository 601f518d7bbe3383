// An all-gather whose parts are multiplied as they pass: communication hidden behind products.
//
//   out_d = concatenate(x_0, ..., x_{n-1}) @ w_d  on every device d
//
// While the product of one part runs, the same part is on its way to the next device. As the
// collective matmul of Wang et al., ASPLOS 2023; both ways round, as theirs has it, a slot has half
// of a part that goes one way and half of another that goes the other, and a link half the bytes.
#pragma once

#include "kernels/ring.hpp"
#include "sim/ops/dot.hpp"

namespace tessera::kernels {

template <class T>
struct AllGatherMatmul {
  static constexpr KernelInfo info{.name = "all_gather_matmul",
                                   .summary = "all-gather overlapped with a matrix product",
                                   .math = "out_d[p,i,j] = sum_k x_p[i,k] w_d[k,j]",
                                   .cites = "doi:10.1145/3567955.3567959"};

  int devices = 1;
  int m = 0;
  int n = 0;
  int k = 0;
  int ways = 1;

  static constexpr auto sizes = params(
      size("devices", &AllGatherMatmul::devices, "devices of the ring"),
      size("m", &AllGatherMatmul::m, "rows of a shard of x, a multiple of 16"),
      size("n", &AllGatherMatmul::n, "columns of a device's w"),
      size("k", &AllGatherMatmul::k, "columns of x, rows of w"),
      size("ways", &AllGatherMatmul::ways, "2: half of the rows of a part go each way round"));
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
    return tessera::spec(grid(arbitrary(1)), hbm_in<T>("x", shape(m, k)),
                         in<T>("w", shape(k, n), block(bk, bn), [](auto) { return at(0, 0); }),
                         hbm_out<T>("out", shape(devices * m, n)),
                         vmem<T>("part", Int<2>{}, bm, bk), vmem<T>("product", bm, bn),
                         dma_sem("local"), dma_sem("send", Int<4>{}), dma_sem("recv", Int<4>{}),
                         sem("freed", Int<2>{}));
  }

  /// x and w once per device; out once; n - 1 shards of x over each link, or half of each both
  /// ways.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t d = devices;
    const std::int64_t shard = std::int64_t{m} * k * kBytes<T>;
    return {d * (shard + std::int64_t{k} * n * kBytes<T>), d * d * m * n * kBytes<T>,
            d * (d - 1) * shard};
  }

  // nvcc 13.0 crashes on ten `auto` parameters.
  template <class Env, class X, class W, class Out, class Slots, class Product, class Local,
            class Sems, class Freed>
  TESSERA_FN void operator()(Env& env, X x, W w, Out out, Slots part, Product product, Local local,
                             Sems send, Sems recv, Freed freed) const {
    const auto ring = ring_ways(env.device_id(), devices, ways, m);
    ring_barrier(env);
    async_copy(x, part.slot(0), local).wait();
    for (int step = 0; step < devices; ++step) {
      const int slot = step % 2;
      const auto pass = [&](int way) {
        return make_async_remote_copy(ring.half(part.slot(slot), way),
                                      ring.half(part.slot(1 - slot), way), send[2 * way + slot],
                                      recv[2 * way + 1 - slot], ring.next(way));
      };
      const bool passes = step + 1 < devices;
      for (int way = 0; passes && way < ways; ++way) {
        if (step >= 1) semaphore_wait(freed[way], 1);  // the neighbour is done with that slot
        pass(way).start();
      }
      *product = cast<T>(load(dot(*part.slot(slot), *w)));  // (m, n)
      for (int way = 0; way < ways; ++way) {
        const auto from = ring.source(way, step) * m + ring.first(way);
        async_copy(ring.half(product, way), out.slice(ds(from, ring.each()), ds(0, n)), local)
            .wait();
      }
      for (int way = 0; passes && way < ways; ++way) {
        pass(way).wait_send();
        if (step + 2 < devices) semaphore_signal(freed[way], 1, ring.source(way, 1));
        pass(way).wait_recv();
      }
    }
  }
};

}  // namespace tessera::kernels
