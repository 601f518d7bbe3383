// Which thread takes which part of a loop: the one on whose processor that part was last.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace tessera::triton {

/// The parts of a loop, each once. A processor begins with those that it had in the loop before,
/// the last of them first: what it read or wrote of them is in its caches, if the arrays are the
/// same.
class ByProcessor {
 public:
  ByProcessor(std::int64_t parts, int threads) : runs_(static_cast<std::size_t>(threads)) {
    static std::atomic<unsigned> loops{0};
    backwards_ = loops.fetch_add(1, std::memory_order_relaxed) % 2 != 0;
    for (std::int64_t first = 0, r = 0; Run & run : runs_) {
      run.first = first;
      run.end = first = parts * ++r / threads;
    }
  }
  bool backwards() const { return backwards_; }

  /// -1: there are no more.
  std::int64_t next() {
    const std::size_t own = static_cast<std::size_t>(std::max(0, sched_getcpu())) % runs_.size();
    for (std::size_t k = 0; k < runs_.size(); ++k) {
      Run& run = runs_[(own + k) % runs_.size()];
      const std::int64_t i = run.taken.fetch_add(1, std::memory_order_relaxed);
      if (i < run.end - run.first) return backwards_ ? run.end - 1 - i : run.first + i;
    }
    return -1;
  }

 private:
  struct alignas(64) Run {
    std::int64_t first = 0;
    std::int64_t end = 0;
    std::atomic<std::int64_t> taken = 0;
  };
  std::vector<Run> runs_;
  bool backwards_ = false;
};

}  // namespace tessera::triton
