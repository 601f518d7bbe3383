// What an output lacks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "memory_model/shadow.hpp"

namespace tessera {

/// Elements of an output that hold no value.
struct Missing {
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t count = 0;
  std::int64_t first = kNone;  ///< in row-major order
  // Among them: what a step wrote though it was undefined, or another parallel cell left.
  std::int64_t reached = 0;
  std::int64_t first_reached = kNone;
  Shadow::State state = Shadow::uninit;  ///< of that one

  void add(std::int64_t elems, std::int64_t at) {
    count += elems;
    first = std::min(first, at);
  }
  /// One element.
  void add(std::int64_t at, Shadow::State s) {
    add(1, at);
    if (s == Shadow::uninit) return;
    ++reached;
    if (at < first_reached) state = s;
    first_reached = std::min(first_reached, at);
  }
  void add(const Missing& other) {
    add(other.count, other.first);
    reached += other.reached;
    if (other.first_reached < first_reached) state = other.state;
    first_reached = std::min(first_reached, other.first_reached);
  }
};

}  // namespace tessera
