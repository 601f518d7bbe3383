// One core's side of bodies that are run for their counts alone.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/machine/machine.hpp"
#include "sim/machine/script.hpp"

namespace tessera {

/// What a body asked for: by bit, the dims whose id, place at an end, or extent it used.
struct IdUse {
  unsigned exact = 0;
  unsigned ends = 0;
  unsigned extents = 0;
  bool operator==(const IdUse&) const = default;
  IdUse operator|(const IdUse& o) const {
    return {exact | o.exact, ends | o.ends, extents | o.extents};
  }
};

/// Of this thread's body: what the ops of counted tiles count.
inline thread_local constinit Work counted_work{};

struct CountedCore {
  MachineCore* core = nullptr;
  const Plan* plan = nullptr;
  std::array<int, kMaxGridRank> ids{};
  std::array<int, kMaxGridRank> lo{};
  std::array<int, kMaxGridRank> hi{};
  IdUse use;
  std::vector<Movement> copies;   ///< of the body that runs
  bool scripted = false;          ///< its script is wanted
  Script script;                  ///< of the body that runs
  Work work;                      ///< of the body that runs, up to what was last written down
  int semaphores = 0;             ///< that have a number
  std::vector<std::int64_t> ran;  ///< of the body that runs: StepTrace::ran

  void write_down(const Act& act) {
    if (!scripted || std::ssize(script) > kMostActs) return;
    end_work();
    script.push_back(act);
  }
  /// Writes the work down that was done since.
  void end_work() {
    if (counted_work == Work{}) return;
    script.push_back(work_act(counted_work));
    work.add(counted_work, 1);
    counted_work = {};
  }
  int id(int device, int on) const {
    return (device == kThis ? core->device : device) * core->machine->cores_per_device() +
           (on == kThis ? core->core : on);
  }
};

}  // namespace tessera
