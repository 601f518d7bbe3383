// What every grid step of a device uses, in the order of the grid, of several cores one core's
// after the other's (core_cells.hpp): the block of each pipelined operand, and what the body does.
// What timelines and pictures are made of (report/).
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "sim/machine/script.hpp"

namespace tessera {

struct StepTrace {
  /// Some hundred megabytes.
  static constexpr std::int64_t kMostSteps = std::int64_t{1} << 24;

  std::int64_t most = 0;  ///< steps that are kept; a run of more keeps none
  std::int64_t steps = 0;
  bool complete = true;                  ///< false: there was more than a trace has
  bool too_many_acts = false;            ///< of scripts, not of steps
  std::vector<int> grid;                 ///< extents, as in RunResult
  std::vector<std::int64_t> cell_begin;  ///< first step of each parallel cell, then `steps`
  /// By operand of the plan: the block of each step, numbered in row-major order; empty for
  /// operands that the pipeline does not move.
  std::vector<std::vector<std::int32_t>> blocks;
  std::vector<std::int32_t> work;  ///< of each step: index into `works`; empty: not counted
  std::vector<Work> works;         ///< distinct ones, of those with the same script
  std::vector<Script> scripts;     ///< of each of `works`
  std::int64_t acts = 0;           ///< in `scripts`
  /// How often each step of a module's code ran, where CoreModel::lines says what it takes; empty
  /// elsewhere.
  std::vector<std::int64_t> ran;
  std::vector<StepTrace> peers;  ///< of devices 1, 2, ..., where bodies copy

  /// True if a body copies, waits or signals.
  bool scripted() const { return acts > 0; }
  void give_up(bool acts_of_scripts = false) {
    StepTrace none;
    none.most = most;
    none.too_many_acts = acts_of_scripts;
    none.complete = false;
    *this = std::move(none);
  }
  /// The steps of a core after those of others.
  void append(const StepTrace& part) {
    if (!complete) return;
    if (!part.complete || steps + part.steps > most || acts + part.acts > kMostActs) {
      give_up(part.too_many_acts || (part.complete && steps + part.steps <= most));
      return;
    }
    for (const std::int64_t begin : part.cell_begin) cell_begin.push_back(steps + begin);
    const auto known = static_cast<std::int32_t>(works.size());
    for (const std::int32_t w : part.work) work.push_back(known + w);
    works.insert(works.end(), part.works.begin(), part.works.end());
    scripts.insert(scripts.end(), part.scripts.begin(), part.scripts.end());
    acts += part.acts;
    add_ran(part.ran, 1);
    blocks.resize(part.blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i)
      blocks[i].insert(blocks[i].end(), part.blocks[i].begin(), part.blocks[i].end());
    steps += part.steps;
  }
  void add_ran(const std::vector<std::int64_t>& more, std::int64_t times) {
    ran.resize(std::max(ran.size(), more.size()));
    for (std::size_t i = 0; i < more.size(); ++i) ran[i] += times * more[i];
  }
  /// What the next step does.
  void add_work(const Work& w, const Script& script) {
    constexpr std::size_t kLookBack = 64;  // what steps do comes back soon, or never
    std::size_t at = works.size() > kLookBack ? works.size() - kLookBack : 0;
    while (at < works.size() && !(works[at] == w && scripts[at] == script)) ++at;
    if (at == works.size()) add(w, script);
    if (complete) work.push_back(static_cast<std::int32_t>(at));
  }
  /// Something that steps do.
  void add(const Work& w, const Script& script) {
    works.push_back(w);
    scripts.push_back(script);
    acts += std::ssize(script);
    if (acts > kMostActs) give_up(true);
  }
  /// After the last step.
  void close(const std::vector<int>& extents) {
    if (most == 0 || !complete) return;
    grid = extents;
    cell_begin.push_back(steps);
    for (StepTrace& peer : peers) peer.close(extents);
  }
  std::int64_t cells() const {
    return static_cast<std::int64_t>(cell_begin.size()) - (cell_begin.empty() ? 0 : 1);
  }
};

}  // namespace tessera
