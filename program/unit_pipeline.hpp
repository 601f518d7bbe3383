// What a TPU's pipeline takes besides what a kernel's body does: of each step, by the windows that
// it brings and what their index maps compute, and of a launch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/program.hpp"
#include "program/unit_costs.hpp"

namespace tessera::program {

/// What arrays say of a program's windows.
struct WindowArrays {
  /// Of each the dims along which its last block of several ends beyond its array's tiles.
  std::vector<std::int64_t> ragged;
  std::vector<std::int64_t> beyond;  ///< or its only one
  std::vector<bool> in_registers;    ///< of each: an input of one element, which nobody copies
  /// Of each the rows of its array's tiles, if they are fewer than eight; 0.
  std::vector<std::int64_t> few_rows;
  /// Of each at what part of the steps it moves, where its map computes where to; 0.
  std::vector<double> moved_by_map;
};

/// What a step takes of how cores share a grid (sim/pipeline/core_cells.hpp).
struct SharedGrid {
  int of_one_step = -1;  ///< the dim of which each core has one step: no window moves along it
  /// Where cells are numbered through since no dim is shared: of the parallel ones of so many dims
  /// ids are computed of a cell's number. The compiler then knows none of them, of one step or not.
  int numbered = 0;
};
SharedGrid shared_grid(const Program& program, const std::vector<std::int64_t>& grid, int cores);

/// What the pipeline takes besides, of a core's `steps` steps: before and behind them all, and each
/// step.
struct PipelineCycles {
  std::int64_t launch = 0;
  std::int64_t step = 0;
  std::vector<bool> stays;  ///< by operand: its window, on all cores
};
PipelineCycles pipeline_cycles(const Program& program, std::int64_t steps,
                               const WindowArrays& arrays, const UnitCosts& costs,
                               const SharedGrid& shared = {});

/// Of windows that the pipeline brings: how many, how many of them move, and what the numbers of
/// these are that say where to: of all windows together, those that are the same once.
struct PipelineWindows {
  std::int64_t all = 0;
  std::int64_t in_registers = 0;  ///< no others are
  std::int64_t moving = 0;
  /// Of these those whose block ends beyond its array: their copies are branched over where they
  /// stay.
  std::int64_t skipping = 0;
  double copies = 0;          ///< of those at each step
  std::vector<bool> checked;  ///< by operand: where it moves to is
  std::int64_t checks = 0;    ///< of moving ones at each step
  double skipping_checks = 0;
  double ragged = 0;          ///< dims along which these end beyond their arrays
  std::vector<double> rates;  ///< of each operand at how many steps it moves; 0: at none
  std::int64_t still = 0;
  std::int64_t own = 0;      ///< of a core, where it has one step of a dim: no other's
  std::int64_t dims = 0;     ///< of the moving ones, those along which they move
  std::int64_t indices = 0;  ///< different ones
  std::int64_t words = 0;    ///< that a turn carries to the next one
  /// Of those read where a word, or a grid's extent at run time, says; no end of an array is in the
  /// way of theirs.
  std::int64_t choices = 0;
  std::vector<bool> chosen;  ///< by operand
  /// By each window anew, and what says where to load once: of more numbers than one each.
  std::int64_t map_loads = 0;
  std::map<std::string, std::int64_t> map_ops;    ///< rows and times
  std::map<std::string, std::int64_t> map_again;  ///< of what follows from loads, by each window
  std::vector<bool> stays;                        ///< by operand
};

PipelineWindows windows_of(const Program& program, const WindowArrays& arrays,
                           const SharedGrid& shared);

/// Semaphores of the kernel's own.
std::int64_t semaphores_of(const Program& program);

}  // namespace tessera::program
