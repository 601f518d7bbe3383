// What a TPU core's units take for what ops ask of them: tables fitted to its compiler's schedules.
//
//   const UnitCosts* costs = unit_costs("v5e");  // null: none were measured
//
// A table (unit_costs/v5e.json, made by tpu_compiler/unit_costs.py) has for each row of units.hpp
// the slots of each unit that the TPU's compiler uses and the bundles until its result is there,
// fitted to the schedules of small kernels. What code takes by it: unit_count.hpp; what the
// pipeline does: unit_pipeline.hpp.
//
// TESSERA_UNIT_COSTS=FILE tries a table in place of its chip's, without a build; predictions say
// so.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "program/program.hpp"
#include "sim/pipeline/core_model.hpp"

namespace tessera::program {

/// What is hardest to predict of what a program does.
inline constexpr std::array kUnitKinds{"copies", "products", "moves", "plain"};

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
  int eup = 1;           ///< from a push to its pop
  int eup_every = 1;     ///< from one push to the next
  int reduce = 1;        ///< of XLU, from a push to its pop: along lanes
  int permute = 1;       ///< otherwise
  int reduce_every = 0;  ///< from one push to the next along lanes; 0: as its slots say
  int memory = 1;        ///< loads and stores of a bundle, together
  int places = 1;  ///< in memory, for words of few rows that are put together (unit_few_rows.hpp)
  /// From one push of a register of weights of f32 to the next, of four matrix units; turned.
  double push_words = 2;
  double push_words_turned = 2.5;
  int product = 30;              ///< from a pass to its pop
  bool pops_from_queue = false;  ///< of wide matrix units: one after the other
  bool adds_up = false;          ///< tiles on top of each other in a unit
  bool packs_words = false;      ///< pushes f32 as pairs of bf16
  int turn = 0;        ///< of a transpose, from the last register in to the first out; 0: a block
  int turn_every = 0;  ///< from one register to the next
  /// Bundles that eight rows take a matrix unit of 128 x 128 at least: as many cycles, but for
  /// those in which nothing begins. 0: not known.
  double pass = 0;
  /// Bundles at most in which a loop's turn that waits for a product begins what is behind the
  /// loop.
  double behind_loop = 0;
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
  double ends = 0;       ///< of the pipeline, what its first and its last turn take less than steps
  double step = 0;       ///< each step, and two more to begin and to end
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
  /// By what is in a program: held_out_kind() names it (units_json.hpp), of "stretch " or "module "
  /// and one of kUnitKinds.
  std::map<std::string, Interval> held_out;
  /// Of whole runs, which wait, times the times that follow from those cycles; likewise.
  std::map<std::string, Interval> whole;
};

/// Null if none were measured.
const UnitCosts* unit_costs(const std::string& chip);

}  // namespace tessera::program
