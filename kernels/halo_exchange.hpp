// A vertical stencil on rows spread over devices: each needs a row of both neighbours.
//
//   out[i,j] = x[i-1,j] + x[i,j] + x[i+1,j],  zero beyond the first and last row of the mesh
//
// Devices form a line. Whole tiles of 16 rows are exchanged, one row of which is used: a DMA moves
// tiles. The sums are in f32.
#pragma once

#include "kernels/ring.hpp"
#include "sim/ops/dot.hpp"

namespace tessera::kernels {

template <class T>
struct HaloExchange {
  static constexpr KernelInfo info{.name = "halo_exchange",
                                   .summary = "three-point stencil with rows of both neighbours",
                                   .math = "out[i,j] = x[i-1,j] + x[i,j] + x[i+1,j]"};

  int devices = 1;
  int rows = 0;
  int cols = 0;

  static constexpr int kHalo = 16;

  static constexpr auto sizes =
      params(size("devices", &HaloExchange::devices, "devices of the line"),
             size("rows", &HaloExchange::rows, "rows of a device, a multiple of 16"),
             size("cols", &HaloExchange::cols, "columns"));
  static constexpr auto tiles = tile_names(tile("br", "rows"), tile("bc", "cols"));
  static constexpr std::array cases{
      Case{"aligned", {4, 64, 256}, {64, 256}}, Case{"ragged, prime line", {5, 48, 300}, {48, 300}},
      Case{"two devices", {2, 16, 128}, {16, 128}}, Case{"degenerate", {1, 16, 1}, {16, 1}}};

  const char* valid(Tiles t) const { return part_fault(t, rows, cols); }

  TESSERA_FN auto spec(auto br, auto bc) const {
    return tessera::spec(
        grid(arbitrary(1)),
        in<T>("x", shape(rows, cols), block(br, bc), [](auto) { return at(0, 0); }),
        out<T>("out", shape(rows, cols), block(br, bc), [](auto) { return at(0, 0); }),
        vmem<T>("halo", Int<2>{}, Int<kHalo>{}, bc),
        vmem<float>("padded", br + Int<2 * kHalo>{}, bc), dma_sem("send", Int<2>{}),
        dma_sem("recv", Int<2>{}));
  }

  /// x once, out once; a tile of rows over each link in both directions.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t bytes = std::int64_t{devices} * rows * cols * kBytes<T>;
    return {bytes, bytes, 2 * std::int64_t{devices - 1} * kHalo * cols * kBytes<T>};
  }

  TESSERA_FN void operator()(auto& env, auto x, auto out, auto halo, auto padded, auto send,
                             auto recv) const {
    const auto me = env.device_id();
    const Int<kHalo> edge;
    const auto all = ds(0, x.cols);
    const auto above = me > 0;
    const auto below = me + 1 < devices;
    const auto barrier = env.barrier_semaphore();
    if (above) semaphore_signal(barrier, 1, me - 1);
    if (below) semaphore_signal(barrier, 1, me + 1);
    if (above || below) semaphore_wait(barrier, (above ? 1 : 0) + (below ? 1 : 0));
    // Slot 0 takes what comes from above, slot 1 what comes from below.
    const auto up =
        make_async_remote_copy(x.slice(ds(0, edge), all), halo.slot(1), send[0], recv[1], me - 1);
    const auto down = make_async_remote_copy(x.slice(ds(rows - kHalo, edge), all), halo.slot(0),
                                             send[1], recv[0], me + 1);
    if (above) up.start();
    if (below) down.start();
    *padded = 0.f;  // (kHalo + rows + kHalo, cols) f32
    *padded.slice(ds(kHalo, x.rows), all) = cast<float>(*x);
    if (above) {
      down.wait_recv();
      *padded.slice(ds(0, edge), all) = cast<float>(*halo.slot(0));
    }
    if (below) {
      up.wait_recv();
      *padded.slice(ds(kHalo + rows, edge), all) = cast<float>(*halo.slot(1));
    }
    const auto before = load(*padded.slice(ds(kHalo - 1, x.rows), all));
    const auto here = load(*padded.slice(ds(kHalo, x.rows), all));
    const auto after = load(*padded.slice(ds(kHalo + 1, x.rows), all));
    *out = cast<T>(before + here + after);  // (rows, cols) T
    if (above) up.wait_send();
    if (below) down.wait_send();
  }
};

}  // namespace tessera::kernels
