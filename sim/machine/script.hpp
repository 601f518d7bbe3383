// What a body does, in numbers: its work, and where it copies by itself, in which order it works,
// copies, waits and signals. What timelines are made of (report/).
//
// Cores are numbered globally (device * cores per device + core); a semaphore has one number on all
// cores, as programs are SPMD: what a core calls its second semaphore is the second of every core.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

#include "memory_model/here.hpp"
#include "memory_model/space.hpp"
#include "sim/numerics/op_state.hpp"

namespace tessera {

struct Work {
  std::int64_t flops = 0;
  std::int64_t transcendentals = 0;
  std::int64_t matrix_flops = 0;   ///< of `flops`: those of products
  std::int64_t products = 0;       ///< how many dots that is
  std::int64_t left_elements = 0;  ///< of their left operands, once for each piece of columns
  std::int64_t elements = 0;       ///< of all elementwise ops and row reductions, casts included
  std::int64_t held_product = 0;   ///< elements of the largest product that is held as a tile
  CoreUse core{};                  ///< of a TPU core, where it is modelled (CoreModel)

  Work& add(const Work& o, std::int64_t times) {
    flops += times * o.flops;
    transcendentals += times * o.transcendentals;
    matrix_flops += times * o.matrix_flops;
    products += times * o.products;
    left_elements += times * o.left_elements;
    elements += times * o.elements;
    held_product = std::max(held_product, o.held_product);
    core.add(o.core, times);
    return *this;
  }
  auto operator<=>(const Work&) const = default;
};

/// What the ops of this thread have counted since `before`.
inline Work work_since(const OpState& before) {
  Work w;
  w.flops = op_state.flops - before.flops;
  w.transcendentals = op_state.transcendentals - before.transcendentals;
  w.matrix_flops = op_state.matrix_flops - before.matrix_flops;
  w.elements = op_state.elements - before.elements;
  w.core = op_state.core;
  w.core.add(before.core, -1);
  return w;
}

struct Act {
  enum class Kind : std::uint8_t { work, copy, wait, signal };
  // In an order without gaps: a run keeps millions.
  Kind kind = Kind::work;
  Space from = Space::hbm;
  Space to = Space::hbm;
  bool remote = false;            ///< a copy that `sent` hears of, on the core that makes it
  int core = 0;                   ///< that a copy goes to, or a signal
  int semaphore = 0;              ///< of that core, or the one that a wait takes from
  int sent = 0;                   ///< of a remote copy
  Work work{};                    ///< of `work`, nothing else
  std::int64_t amount = 0;        ///< bytes of a copy, counts of a signal, what a wait takes
  std::int64_t padded_bytes = 0;  ///< of a copy: what the tiled layout moves
  int ref = -1;                   ///< of a copy: the row of the ledger that it counts on
  int to_ref = -1;                ///< and another one, or -1
  Here at{};                      ///< of a copy, where it starts; of a wait
  bool operator==(const Act&) const = default;
};
/// Empty for a body that copies nothing, waits for nothing and signals nothing.
using Script = std::vector<Act>;
/// Of all scripts of a run that are kept: some hundred megabytes.
inline constexpr std::int64_t kMostActs = std::int64_t{1} << 21;

/// FNV-1a, by words, of what tells most scripts apart.
inline std::uint64_t hash_of(const Script& script) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::int64_t word) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x100000001b3;
  };
  for (const Act& a : script) {
    add(static_cast<int>(a.kind) + 4 * static_cast<int>(a.from) + 32 * static_cast<int>(a.to));
    add(a.core);
    add(a.semaphore);
    add(a.ref);
    add(a.amount);
    add(a.work.flops);
  }
  return hash;
}

inline Act work_act(const Work& w) {
  Act a;
  a.work = w;
  return a;
}
inline Act wait_act(int core, int semaphore, std::int64_t amount, Here at) {
  Act a;
  a.kind = Act::Kind::wait;
  a.core = core;
  a.semaphore = semaphore;
  a.amount = amount;
  a.at = at;
  return a;
}
inline Act signal_act(int core, int semaphore, std::int64_t amount) {
  Act a = wait_act(core, semaphore, amount, {});
  a.kind = Act::Kind::signal;
  return a;
}

}  // namespace tessera
