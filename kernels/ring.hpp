// Steps that the collectives on a ring share: device d sends to d + 1 and hears from d - 1.
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
constexpr const char* shard_fault(Tiles t, int m, int n, int k) {
  if (m % 16 != 0) return "m is a multiple of 16";
  return t[0] == m && t[1] == n && t[2] == k
             ? nullptr
             : "bm, bn and bk are m, n and k: shards lie in VMEM whole";
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

/// Sums parts around the ring. `local(part, slot)` sets a slot to this device's own part; part p
/// ends complete on device p, in the slot of `sum` whose number is returned. Two slots each for
/// what is sent and what arrives; `freed` counts slots of the right neighbour that can be written
/// again.
template <class Slots, class Sems, class Freed, class Local>
TESSERA_FN int ring_reduce(auto& env, Slots sum, Slots arrived, Sems send, Sems recv, Freed freed,
                           Local local) {
  using T = typename Slots::Element;
  const int n = env.num_devices();
  const auto me = env.device_id();
  local(ring_mod(me - 1, n), sum.slot(0));
  for (int step = 0; step < n - 1; ++step) {
    const int slot = step % 2;
    const auto next = sum.slot(1 - slot);
    if (step >= 2) semaphore_wait(freed, 1);
    const auto copy = make_async_remote_copy(sum.slot(slot), arrived.slot(slot), send[slot],
                                             recv[slot], ring_mod(me + 1, n));
    copy.start();
    local(ring_mod(me - 2 - step, n), next);
    copy.wait_recv();
    *next = cast<T>(cast<float>(*next) + cast<float>(*arrived.slot(slot)));
    if (step + 2 < n - 1) semaphore_signal(freed, 1, ring_mod(me - 1, n));
    copy.wait_send();
  }
  return (n - 1) % 2;
}

}  // namespace tessera::kernels
