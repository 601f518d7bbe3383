// What every grid step of a device uses, in grid order: the block of each pipelined operand, and
// the work of the body. What timelines and pictures are made of (report/).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/counted_tile.hpp"

namespace tessera {

struct StepTrace {
  /// Some hundred megabytes.
  static constexpr std::int64_t kMostSteps = std::int64_t{1} << 24;

  std::int64_t most = 0;  ///< steps that are kept; a run of more keeps none
  std::int64_t steps = 0;
  bool complete = true;                  ///< false: there were more steps than a trace has
  std::vector<int> grid;                 ///< extents, as in RunResult
  std::vector<std::int64_t> cell_begin;  ///< first step of each parallel cell, then `steps`
  /// By operand of the plan: the block of each step, numbered in row-major order; empty for
  /// operands that the pipeline does not move.
  std::vector<std::vector<std::int32_t>> blocks;
  std::vector<std::int32_t> work;  ///< of each step: index into `works`; empty: not counted
  std::vector<Work> works;         ///< distinct ones

  void give_up() {
    StepTrace none;
    none.most = most;
    none.complete = false;
    *this = std::move(none);
  }
  std::int64_t cells() const {
    return static_cast<std::int64_t>(cell_begin.size()) - (cell_begin.empty() ? 0 : 1);
  }
};

}  // namespace tessera
