// Steps that the collectives on a ring share: device d sends to d + 1 and hears from d - 1; both
// ways round, half of the rows go so, and half from d + 1 to d - 1.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"

namespace tessera::kernels {

/// i mod n, in [0, n), for i >= -n.
TESSERA_FN constexpr auto ring_mod(auto i, int n) { return (i + n) % n; }

/// Why a part of rows x cols cannot lie in VMEM as a block of t[0] x t[1], or nullptr.
constexpr const char* part_fault(Tiles t, int rows, int cols) {
  if (rows % 16 != 0) return "rows is a multiple of 16";
  return t[0] == rows && t[1] == cols ? nullptr
                                      : "br and bc are rows and cols: a part lies in VMEM whole";
}
/// The same for the shards of a product of m x k and k x n and blocks of t[0], t[1] and t[2].
constexpr const char* shard_fault(Tiles t, int m, int n, int k, int ways) {
  if (ways < 1 || ways > 2) return "ways is 1, or 2: both";
  if (m % (16 * ways) != 0) return "m is a multiple of 16, both ways of 32";
  return t[0] == m && t[1] == n && t[2] == k
             ? nullptr
             : "bm, bn and bk are m, n and k: shards lie in VMEM whole";
}

/// One way around a ring, or both: which rows of a part go which way, from whom and to whom.
template <class Me>
struct RingWays {
  Me me;
  int devices;
  int ways;
  int rows;  ///< of a part

  /// The device `distance` before this one on its way.
  TESSERA_FN auto source(int way, int distance) const {
    return ring_mod(me + (way == 0 ? -distance : distance), devices);
  }
  TESSERA_FN auto next(int way) const { return source(way, -1); }
  TESSERA_FN int each() const { return rows / ways; }
  TESSERA_FN int first(int way) const { return way * each(); }
  /// What goes that way of a part that lies in VMEM.
  template <class Ref>
  TESSERA_FN auto half(const Ref& part, int way) const {
    return part.slice(ds(first(way), each()), ds(0, part.cols));
  }
};
template <class Me>
TESSERA_FN RingWays<Me> ring_ways(Me me, int devices, int ways, int rows) {
  return {me, devices, ways, rows};
}

/// An array of semaphores from its semaphore `first` on.
template <class Sems>
struct SemsFrom {
  Sems sems;
  int first;
  TESSERA_FN auto operator[](int i) const { return sems[first + i]; }
};

/// Waits until both neighbours have reached the same barrier: their buffers are theirs to receive.
TESSERA_FN void ring_barrier(auto& env) {
  const int n = env.num_devices();
  if (n == 1) return;
  const auto barrier = env.barrier_semaphore();
  semaphore_signal(barrier, 1, ring_mod(env.device_id() + 1, n));
  semaphore_signal(barrier, 1, ring_mod(env.device_id() - 1, n));
  semaphore_wait(barrier, 2);
}

/// Passes parts of `out` (n parts of `rows` rows, this device's own in place) around the ring until
/// every device has all of them. A semaphore per step: the neighbour may run ahead.
template <class Out, class Send, class Recv>
TESSERA_FN void ring_gather(auto& env, Out out, int rows, int cols, Send send, Recv recv) {
  const int n = env.num_devices();
  const auto me = env.device_id();
  for (int step = 0; step < n - 1; ++step) {
    const auto part = out.slice(ds(ring_mod(me - step, n) * rows, rows), ds(0, cols));
    const auto copy = make_async_remote_copy(part, part, send, recv[step], ring_mod(me + 1, n));
    copy.start();
    copy.wait();  // sent, and the next part has come from the other side
  }
}

/// Sums parts around the ring. `local(distance, slot)` sets a slot to this device's own part, of
/// each way's rows those of the device that is `distance` before it; part p ends complete on device
/// p, in the slot of `sum` whose number is returned. Two slots each for what is sent and what
/// arrives, two semaphores of each for each way; `freed` counts slots of the next device that can
/// be written again.
template <class Me, class Slots, class Sems, class Freed, class Local>
TESSERA_FN int ring_reduce(const RingWays<Me>& ring, Slots sum, Slots arrived, Sems send, Sems recv,
                           Freed freed, Local local) {
  using T = typename Slots::Element;
  const int n = ring.devices;
  local(1, sum.slot(0));
  for (int step = 0; step < n - 1; ++step) {
    const int slot = step % 2;
    const auto next = sum.slot(1 - slot);
    const auto copy = [&](int way) {
      return make_async_remote_copy(ring.half(sum.slot(slot), way),
                                    ring.half(arrived.slot(slot), way), send[2 * way + slot],
                                    recv[2 * way + slot], ring.next(way));
    };
    for (int way = 0; way < ring.ways; ++way) {
      if (step >= 2) semaphore_wait(freed[way], 1);
      copy(way).start();
    }
    local(2 + step, next);
    for (int way = 0; way < ring.ways; ++way) copy(way).wait_recv();
    *next = cast<T>(cast<float>(*next) + cast<float>(*arrived.slot(slot)));
    for (int way = 0; way < ring.ways; ++way) {
      if (step + 2 < n - 1) semaphore_signal(freed[way], 1, ring.source(way, 1));
      copy(way).wait_send();
    }
  }
  return (n - 1) % 2;
}

}  // namespace tessera::kernels
