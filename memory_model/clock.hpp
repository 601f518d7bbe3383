// Vector clocks: what each core of the machine knows of the others.
//
// One component per core. A core's own component ticks after each release (a signal, the start of a
// transfer), so an access at time t is known to whoever holds a component of at least t. Transfers
// have no component: a transfer is known through the wait that first had to see it complete
// (semaphore.hpp). Lamport 1978; Mattern 1989.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tessera {

using Time = std::uint32_t;

class Clock {
 public:
  Clock() = default;
  explicit Clock(int cores) : times_(static_cast<std::size_t>(cores), 0) {}

  int cores() const { return static_cast<int>(times_.size()); }
  Time operator[](int core) const { return times_[static_cast<std::size_t>(core)]; }
  Time& operator[](int core) { return times_[static_cast<std::size_t>(core)]; }

  void join(const Clock& o) {
    for (std::size_t i = 0; i < times_.size(); ++i) times_[i] = std::max(times_[i], o.times_[i]);
  }
  bool known_to(const Clock& o) const {
    for (std::size_t i = 0; i < times_.size(); ++i) {
      if (times_[i] > o.times_[i]) return false;
    }
    return true;
  }
  const std::vector<Time>& times() const { return times_; }

 private:
  std::vector<Time> times_;
};

/// A moment of a core.
struct Epoch {
  int core = -1;
  Time time = 0;
  bool known_to(const Clock& c) const { return core >= 0 && time <= c[core]; }
};

}  // namespace tessera
