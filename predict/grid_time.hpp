// How long a GPU takes for a grid of programs of which totals alone are known, as of a Triton
// launch: what its programs ask of memory, wait for and compute.
//
// As many programs share an SM as their warps, registers and shared memory leave room for, and
// queue for it (predict/program_queue.hpp). An SM is busy with their instructions, four warps at a
// time, with the lines that they ask the L1 for, with what they ask of the L2, with products. A
// program for itself goes no faster than its warps' own chain of instructions and waits: for each
// round of loads, as long as DRAM, the L2 or the L1 takes, and for each reduction among its lanes.
// Few warps keep few bytes on their way and few instructions in flight: that is why they are slow.
// DRAM gives and takes what predict/grid_bytes.hpp says, from an L2 that is empty, as
// triton.testing.do_bench has it.
//
// Loads of a loop that multiplies come num_stages ahead. A wgmma is no faster than shared memory
// gives its operands: of 64 rows and k = 16, a right one of n columns takes n / 4 cycles, a left
// one 16, unless registers hold it; the product itself n / 2. More warps than rows divide the
// columns, and read the left operand again. mma.sync reads what each warp multiplies.
//
// Where a loop multiplies what it made of another product, as attention's does, its products follow
// each other: wgmma, elementwise work on what it gave, wgmma again. A warpgroup that is alone on
// its SM takes as long as their sum, and tensor cores wait while it computes; programs side by side
// hide each other's (warpgroups of one program a little, as they wait for each other twice a turn).
//
// Constants are fitted to launches on GPUs (predict/ACCURACY.md). Registers and shared memory
// are estimated where the compiler has not been asked, and so is the order of loads in loops that
// multiply nothing: of few elements ptxas unrolls four turns, of more it waits for some loads
// before it asks for the next. Left out: what descriptors bring, and programs that wait for one
// another.
//
// Atomics of a warp to one sector are as many changes of it as ask for one place; those to 512
// bytes that follow each other come one after another, all others side by side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory_model/device_spec.hpp"
#include "predict/grid_bytes.hpp"

namespace tessera::predict {

/// Loads that are on their way together.
struct GridRound {
  std::int64_t times = 0;  ///< in all programs
  bool products = false;   ///< of a loop that multiplies matrices
  // Of a loop that multiplies nothing and reduces nothing in a turn; 0: of another one, or of none.
  int sites = 0;              ///< loads in the kernel's text
  std::int64_t elements = 0;  ///< of the largest
  int width = 1;              ///< elements of it that one instruction of a thread takes, at most
  int bytes = 4;              ///< of an element
  bool stores = false;        ///< results of each turn
  // Of any loop that multiplies nothing: copied to shared memory so many turns less one ahead.
  int stages = 1;
  std::int64_t turn_bytes = 0;
};

/// A product of tensors in a loop, rows x depth by depth x cols.
struct GridProduct {
  std::int64_t times = 0;  ///< in all programs
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t depth = 0;
  std::int64_t bits = 16;      ///< of an element of its operands
  bool left_computed = false;  ///< its left operand comes in registers
};

/// One load or store of the kernel.
struct GridAccess {
  std::int64_t times = 0;  ///< in all programs
  std::int64_t elements = 1;
  int width = 1;  ///< elements that one instruction of a thread takes, at most
  int run = 0;    ///< that a layout made for it alone would give a thread together; 0: as many
  int bytes = 4;  ///< of an element
  std::int64_t moved = 0;  ///< bytes in all, of lanes that no mask leaves out; 0: of all lanes
  bool write = false;
};

struct GridWork {
  std::int64_t programs = 0;
  int warps = 4;                     ///< of a program
  int stages = 3;                    ///< for which loops that multiply load ahead
  int registers = 0;                 ///< of a thread; 0: to be estimated
  std::int64_t shared_bytes = -1;    ///< of a program; -1: to be estimated
  std::int64_t requested_bytes = 0;  ///< by loads and stores
  std::int64_t flops = 0;            ///< those of products too
  std::int64_t product_flops = 0;
  double product_flops_per_second = 0;  ///< of the device, for these; 0: not known
  std::int64_t functions = 0;           ///< exp and its kin, of elements
  std::int64_t elements = 0;            ///< of elementwise ops, moves and casts too
  std::int64_t reductions = 0;          ///< of a tensor to a scalar
  std::vector<GridRound> rounds = {};
  std::vector<GridProduct> products = {};
  bool chained = false;              ///< of its products one takes what another one made
  std::int64_t masked_elements = 0;  ///< that loops which multiply select by a mask
  std::vector<GridAccess> accesses = {};
  GridReads reads = {};
  std::int64_t written_bytes = 0;
  std::int64_t atomic_passes = 0;       ///< changes of a sector of the L2 by atomics
  std::int64_t most_atomic_passes = 0;  ///< of 512 bytes that follow each other
  /// Of programs, in their order, turns of the loop that multiplies; empty: all have as many.
  std::vector<double> turns = {};
  // Of a program's tensors, elements and bytes.
  std::int64_t product_rows = 0;
  std::int64_t accumulators = 0;
  std::int64_t operand_bytes = 0;  ///< that a turn of its products' loop loads
  std::int64_t kept_bytes = 0;     ///< of operands from before the loop
  std::int64_t held_bytes = 0;     ///< of left operands that are computed
  std::int64_t tile_elements = 0;  ///< of the largest that is loaded
};

struct GridTime {
  double seconds = 0;  ///< 0: not known
  std::string binds;   ///< "DRAM", "SMs", "latency", "atomics"; why, if not known
};

/// Programs that an SM has at once.
int resident_programs(const DeviceSpec& device, const GridWork& work);

/// How the programs of this work share SMs. What programs of rows read again is gone from the L2
/// the more the more all that run have read. Of loops that multiply, an SM's programs go in step
/// where each waits for its loads, as those in front wait for DRAM and those behind find in the L2
/// what came; where it is busy, the first ones are served first: as many as wait while it serves
/// the others, and those beyond fall behind.
SideBySide side_by_side(const DeviceSpec& device, const GridWork& work);

/// `dram_bytes`: read and written.
GridTime grid_time(const DeviceSpec& device, const GridWork& work, double dram_bytes);

}  // namespace tessera::predict
