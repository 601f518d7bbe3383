// What every grid step of a device uses, in grid order: the block of each pipelined operand, and
// the work of the body. What timelines and pictures are made of (report/).
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
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
  /// The steps of a core after those of others.
  void append(const StepTrace& part) {
    if (!complete) return;
    if (!part.complete || steps + part.steps > most) {
      give_up();
      return;
    }
    for (const std::int64_t begin : part.cell_begin) cell_begin.push_back(steps + begin);
    const auto known = static_cast<std::int32_t>(works.size());
    for (const std::int32_t w : part.work) work.push_back(known + w);
    works.insert(works.end(), part.works.begin(), part.works.end());
    blocks.resize(part.blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i)
      blocks[i].insert(blocks[i].end(), part.blocks[i].begin(), part.blocks[i].end());
    steps += part.steps;
  }
  /// The work of the next step.
  void add_work(const Work& w) {
    constexpr std::ptrdiff_t kLookBack = 64;  // what steps do comes back soon, or never
    const auto all = std::ssize(works);
    auto at =
        std::find(works.begin() + std::max<std::ptrdiff_t>(0, all - kLookBack), works.end(), w);
    if (at == works.end()) at = works.insert(at, w);
    work.push_back(static_cast<std::int32_t>(at - works.begin()));
  }
  /// After the last step.
  void close(const std::vector<int>& extents) {
    if (most == 0 || !complete) return;
    grid = extents;
    cell_begin.push_back(steps);
  }
  std::int64_t cells() const {
    return static_cast<std::int64_t>(cell_begin.size()) - (cell_begin.empty() ? 0 : 1);
  }
};

}  // namespace tessera
