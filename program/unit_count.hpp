// A TPU core's time for what a program asks of its units, without the TPU's compiler.
//
//   const CountedCode c = counted(program, program.main, *unit_costs("v5e"));  // c.at[step].cycles
//
// A stretch of code without branches takes
//
//   cycles = block + jump x (it ends in a branch) + latency of its longest chain of operations
//            + sum over phases of (max(m, v) + product x min(m, v) + rest x r)
//
//   m   what the matrix unit has to do: slots / capacity
//   v   what the vector unit that has most to do has; r: the others together
//
// but no less than rows take to go through the matrix units (UnitSchedules::pass), and the cycles
// of what is done alone: a v4 casts to and from 8 bits through memory, register
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
// But what follows from a product and from no other end of a phase, reductions of it too, runs
// beside its passes, all but as much as the first 100 bundles of these are of them: each register
// is popped while others pass.
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
// more where products of one pass follow one another, each phase of which is little code. Where it
// has the registers of all products on wide matrix units, what it takes is the least of any
// stretch, and of one with one product that spills nothing it is what that takes. Of products in a
// row on narrow ones, of bf16 or of f32 as bf16, it takes the mean of that and of units' slots.
//
// A stretch goes on across a branch whose both ways do little (unit_choices.hpp): the compiler
// takes both.
//
// Left out: the layouts that the compiler gives to registers (each has the default one of its
// shape), what it fuses.
#pragma once

#include <string>
#include <vector>

#include "program/program.hpp"
#include "program/unit_costs.hpp"
#include "program/unit_pipeline.hpp"
#include "sim/pipeline/core_model.hpp"

namespace tessera::program {

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

}  // namespace tessera::program
