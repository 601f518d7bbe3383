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
  /// The steps of a core after those of others.
  void append(StepTrace&& part) {
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
  /// Those of a step, by their number among the distinct ones.
  void add_work(const Work& w) {
    // Most steps do what the one before did, or what one of a few did.
    constexpr std::size_t kLookBack = 64;
    if (!work.empty() && works[static_cast<std::size_t>(work.back())] == w) {
      work.push_back(work.back());
      return;
    }
    std::size_t at = works.size();
    while (at > 0 && works.size() - at < kLookBack && works[at - 1] != w) --at;
    if (at == 0 || works[at - 1] != w) {
      works.push_back(w);
      at = works.size();
    }
    work.push_back(static_cast<std::int32_t>(at - 1));
  }
  std::int64_t cells() const {
    return static_cast<std::int64_t>(cell_begin.size()) - (cell_begin.empty() ? 0 : 1);
  }
};

}  // namespace tessera
