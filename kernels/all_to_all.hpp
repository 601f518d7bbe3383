// Rows to the devices that their experts live on, in uneven numbers.
//
//   out_d = concatenate over s of the rows that device s holds for device d, then zeros
//
// counts[s, d] times 16 rows go from s to d; x_s holds them sorted by destination. Every device
// knows all counts, so it knows where in the other's output its rows begin, and how many bytes to
// expect from whom: a receive semaphore per sender.
#pragma once

#include <vector>

#include "kernels/ring.hpp"

namespace tessera::kernels {

template <class T>
struct AllToAll {
  static constexpr KernelInfo info{.name = "all_to_all",
                                   .summary = "expert dispatch: uneven all-to-all of rows",
                                   .math = "out_d = concat_s x_s[rows of s for d], then zeros"};

  int devices = 1;
  int rows = 0;
  int cols = 0;

  Smem<int> counts;  ///< (devices, devices): units of rows from s to d
  Smem<int> starts;  ///< (devices, devices): the unit of x_s at which those for d begin
  Smem<int> places;  ///< (devices + 1, devices): that of out_d for those of s; what d receives
  Smem<int> limits;  ///< one: rows of out, the most that any device receives

  static constexpr int kUnit = 16;

  static constexpr auto sizes =
      params(size("devices", &AllToAll::devices, "devices"),
             size("rows", &AllToAll::rows, "rows of a device, a multiple of 16"),
             size("cols", &AllToAll::cols, "columns"));
  static constexpr auto tiles = tile_names(tile("bc", "cols"));
  static constexpr std::array cases{
      Case{"aligned", {4, 128, 256}, {256}}, Case{"ragged, prime mesh", {7, 160, 300}, {300}},
      Case{"two devices", {2, 64, 128}, {128}}, Case{"degenerate", {1, 16, 1}, {1}}};

  const char* valid(Tiles t) const {
    if (rows % kUnit != 0) return "rows is a multiple of 16";
    return t[0] == cols ? nullptr : "bc is cols: whole rows of zeros lie in VMEM";
  }

  /// Counts at random: each unit of 16 rows goes somewhere.
  void prepare(auto& host, Tiles) {
    const auto at = [&](int s, int d) { return static_cast<std::size_t>(s * devices + d); };
    std::vector<int> made(at(devices, 0));
    for (int s = 0; s < devices; ++s) {
      for (int unit = 0; unit < rows / kUnit; ++unit) ++made[at(s, host.random(0, devices - 1))];
    }
    counts = host.scalars("counts", std::move(made));
    std::vector<int> from(at(devices, 0));
    std::vector<int> to(at(devices + 1, 0));
    int most = 0;
    for (int i = 0; i < devices; ++i) {
      for (int j = 0; j < devices; ++j) {
        if (j + 1 < devices) from[at(i, j + 1)] = from[at(i, j)] + counts[i * devices + j];
        to[at(j + 1, i)] = to[at(j, i)] + counts[j * devices + i];
      }
      most = greater(most, to[at(devices, i)]);
    }
    starts = host.keep("starts", std::move(from));
    places = host.keep("places", std::move(to));
    limits = host.keep("limits", {most * kUnit});
  }

  TESSERA_FN auto spec(auto bc) const {
    return tessera::spec(
        grid(arbitrary(1)), scalars("counts", counts), scalars("starts", starts),
        scalars("places", places), scalars("limits", limits), hbm_in<T>("x", shape(rows, cols)),
        hbm_out<T>("out", shape(limits[0], cols)), vmem<T>("zeros", Int<kUnit>{}, bc),
        dma_sem("local"), dma_sem("send", devices), dma_sem("recv", devices));
  }

  /// Every row is read once and written once; out is padded with zeros from VMEM. Rows that change
  /// devices are remote.
  Bytes hbm_bytes(Tiles, Target) const {
    std::int64_t moved = 0;
    for (int s = 0; s < devices; ++s) {
      for (int d = 0; d < devices; ++d) moved += s == d ? 0 : counts[s * devices + d] * kUnit;
    }
    const std::int64_t row = cols * kBytes<T>;
    const std::int64_t scalars =
        std::int64_t{counts.size + starts.size + places.size + limits.size} * kBytes<int>;
    return {std::int64_t{devices} * (rows * row + scalars), std::int64_t{devices} * limits[0] * row,
            moved * row};
  }

  TESSERA_FN void operator()(auto& env, auto x, auto out, auto zeros, auto local, auto send,
                             auto recv) const {
    const auto me = env.device_id();
    const auto units = [&](auto s, auto d) { return counts[s * devices + d]; };
    // The copy of the rows from s to d; s or d is this device.
    const auto rows_of = [&](auto s, auto d) {
      const auto n = units(s, d) * kUnit;
      const auto from = starts[s * devices + d] * kUnit;
      const auto to = places[s * devices + d] * kUnit;
      return make_async_remote_copy(x.slice(ds(from, n), ds(0, cols)),
                                    out.slice(ds(to, n), ds(0, cols)), send[d], recv[s], d);
    };
    env.loop(0, devices, [&](auto hop) {
      const auto d = ring_mod(me + hop, devices);
      if (units(me, d) > 0) rows_of(me, d).start();
    });
    *zeros = T(0.f);
    env.loop(places[devices * devices + me], limits[0] / kUnit, [&](auto unit) {
      async_copy(zeros, out.slice(ds(unit * kUnit, kUnit), ds(0, cols)), local).wait();
    });
    env.loop(0, devices, [&](auto other) {
      if (units(me, other) > 0) rows_of(me, other).wait_send();
      if (units(other, me) > 0) rows_of(other, me).wait_recv();
    });
  }
};

}  // namespace tessera::kernels
