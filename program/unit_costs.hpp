// A TPU core's time for what a program asks of its units, without the TPU's compiler.
//
//   const UnitCosts* costs = unit_costs("v5e");          // null: none were measured
//   const CountedCode c = counted(program, program.main, *costs);   // c.at[step].cycles
//
// The table (unit_costs/v5e.json, made by tpu_compiler/unit_costs.py) has for each row of units.hpp
// the slots of each unit that the TPU's compiler uses and the bundles until its result is there,
// fitted to the schedules of small kernels. A stretch of code without branches takes
//
//   cycles = block + jump x (it ends in a branch) + latency of its longest chain of operations
//            + sum over phases of (max(m, v) + product x min(m, v) + rest x r)
//
//   m   what the matrix unit has to do: slots / capacity
//   v   what the vector unit that has most to do has; r: the others together
//
// and the cycles of what is done alone: a v4 casts to and from 8 bits through memory, register
// after register, each in a region of code of its own.
//
// Vector units work beside one another, nearly; products and what is done with them hardly. What
// reads a reduction, a product or a transpose begins when that is done: a phase is what has as many
// of these before it, and as many waits for copies and semaphores.
//
// Where a table has "shared" rows, of an odd number of products in a stretch the last that is one
// tile of weights costs those: a v7x's compiler gives it to both matrix units, which are pushed to
// at a time, and each of the others to one.
//
// But what follows from a product and from no other end of a phase runs beside its passes, all but
// as much as the first 100 bundles of these are of them: each register is popped while others pass.
//
// Where a core has two matrix units, m is of the one that has more passes in the phase
// (unit_placement.hpp).
//
// A core has 64 vector registers and 16 masks. Behind the end of a phase the compiler runs each
// operation over all registers of its vectors before the next one, nearly: of each register that
// operations make there while 64 others hold what is still read, a part (spill) is stored and
// loaded again. Before that it does so, entirely, with what follows from no load; masks become
// vectors to be stored.
//
// That is where registers are many. A stretch of a hundred bundles and less takes what a schedule
// of its registers takes (unit_schedule.hpp), between a hundred and three hundred a part of either;
// more where products of one pass follow one another, each phase of which is little code.
//
// A stretch goes on across a branch whose both ways do little (unit_choices.hpp): the compiler
// takes both.
//
// TESSERA_UNIT_COSTS=FILE tries a table in place of its chip's, without a build; predictions say
// so.
//
// Left out: the layouts that the compiler gives to registers (each has the default one of its
// shape), what it fuses.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "program/program.hpp"
#include "sim/pipeline/core_model.hpp"

namespace tessera::program {

struct UnitCost {
  double latency = 0;                      ///< cycles
  std::array<double, kCoreUnits> slots{};  ///< of each time
  double alone = 0;                        ///< cycles of each time in which nothing else is done
  /// Of VALU's slots those that one alone of its places takes: a v4's has two, of which one
  /// multiplies floats and the other adds them and shifts.
  double multiply = 0;
  double add = 0;
  /// So many operations where its compiler counts what a branch is over (unit_choices.hpp); none:
  /// as many as VALU has slots, but one at least.
  std::optional<double> operations;
};

/// Cycles by which the compiler places operations (unit_schedule.hpp).
struct UnitSchedules {
  int eup = 1;        ///< from a push to its pop
  int eup_every = 1;  ///< from one push to the next
  int reduce = 1;     ///< of XLU, from a push to its pop: along lanes
  int permute = 1;    ///< otherwise
  int memory = 1;     ///< loads and stores of a bundle, together
  /// From one push of a register of weights of f32 to the next, of four matrix units; turned.
  double push_words = 2;
  double push_words_turned = 2.5;
};

struct UnitCosts {
  std::string chip;      ///< as DeviceSpec::Jax::chip
  std::string compiler;  ///< whose schedules it was fitted to: "libtpu 0.0.42.1"
  std::string tried;     ///< the file that takes its chip's table's place; "": it is that table
  bool knows_narrow_masks = false;  ///< its compiler knows masks of vectors of less than 32 bits
  std::array<double, kCoreUnits> capacity{};
  std::map<std::string, UnitCost> rows;
  // Cycles.
  double launch = 0;     ///< once
  double semaphore = 0;  ///< once, each of the kernel's own: at the end it checks that it is zero
  double operand = 0;    ///< of a grid of one step, each window
  double step = 0;       ///< of the pipeline, each step, and one more to begin and to end
  double window = 0;     ///< likewise, each window that moves
  double check = 0;      ///< likewise, each of these whose place is checked (unit_carried.hpp)
  double skip = 0;   ///< likewise, each that moves and ends beyond its array, if it does not now
  double still = 0;  ///< likewise, each window that stays: each step looks whether it is the first
  double dim = 0;    ///< likewise, each dim along which one moves
  double index = 0;  ///< likewise, each index that windows share or have alone
  double carried = 0;  ///< likewise, each word or array's place that scalar registers do not hold
  double kept = 0;     ///< likewise, each word that they never do
  double map = 0;      ///< likewise, each dim of what their index maps load
  double map_op = 0;   ///< likewise, each slot of the scalar unit that other ops of these take
  /// Likewise, of those that follow from a load, in each other window's map that has them too: the
  /// compiler does not know that between two windows nobody stores.
  double map_again = 0;
  double chosen = 0;   ///< likewise, each window that is read where data says
  double ragged = 0;   ///< likewise, each dim along which one ends beyond its array's tiles
  double block = 0;    ///< of a stretch without branches
  double jump = 0;     ///< of its branch
  double product = 1;  ///< of the lesser of products and vector work
  double rest = 0;     ///< of vector units that another one outdoes
  double spill = 0;    ///< stores, and loads, of a vector register too many
  std::optional<UnitSchedules> schedules;  ///< none: by slots alone
  /// Of others nine in ten took between these times the predicted cycles.
  struct Interval {
    double least = 1;
    double most = 1;
  };
  /// By what is in a program: held_out_kind() names it.
  std::map<std::string, Interval> held_out;
  /// Of whole runs, which wait, times the times that follow from those cycles; likewise.
  std::map<std::string, Interval> whole;
};

/// Null if none were measured.
const UnitCosts* unit_costs(const std::string& chip);

/// What arrays say of a program's windows.
struct WindowArrays {
  /// Of each the dims along which its last block of several ends beyond its array's tiles.
  std::vector<std::int64_t> ragged;
  std::vector<std::int64_t> beyond;  ///< or its only one
  std::vector<bool> in_registers;    ///< of each: an input of one element, which nobody copies
  /// Of each the rows of its array's tiles, if they are fewer than eight; 0.
  std::vector<std::int64_t> few_rows;
  /// Of each at what part of the steps it moves, where prefetched arrays say where to; 0.
  std::vector<double> moved_by_data;
};

struct CountedCode {
  std::vector<CoreUse>
      at;  ///< by step: of the stretch that begins there, or what of it a wait is before
  /// What of a stretch's cycles each line of it takes; of a stretch they sum to its cycles. Ops
  /// share the sum over units by how much it grows with what each asks, the longest chain by their
  /// latencies. The names of files are the program's.
  std::vector<CoreLine> lines;
  std::vector<std::string> unmeasured;  ///< rows that the table lacks
};

CountedCode counted(const Program& program, const Code& code, const UnitCosts& costs,
                    const WindowArrays& arrays = {});

/// What held_out and whole have of a program of so many steps: of "stretch products" and so on,
/// that is of one stretch of code or with a grid, loops or branches; and with copies of its own,
/// products, moves of elements within vectors, or none of these.
std::string held_out_kind(const Program& program, std::int64_t steps);

/// What a step takes of how cores share a grid (sim/pipeline/core_cells.hpp).
struct SharedGrid {
  int of_one_step = -1;  ///< the dim of which each core has one step: no window moves along it
  /// Where cells are numbered through since no dim is shared: how often a step divides its cell's
  /// number, one quotient after the other, to know its ids.
  int quotients = 0;
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

/// The stretches of a program's code and what they ask of units, as JSON: what costs are fitted to.
std::string units_json(const Program& program);

}  // namespace tessera::program
