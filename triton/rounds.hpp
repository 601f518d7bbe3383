// What the programs of a launch wait for and compute, as a model of a GPU's time wants it
// (predict/grid_time.hpp): which loads are on their way together, what is multiplied, how often
// rows are reduced.
//
// A program waits for memory once for the loads of one turn of a loop, or of the code around its
// loops, and again for a load that decides where another access is.
#pragma once

#include <cstdint>
#include <vector>

#include "triton/launch.hpp"

namespace tessera::triton {

/// Loads that are on their way together, in all programs.
struct Round {
  std::int64_t times = 0;
  std::int64_t bytes = 0;
  bool products = false;  ///< its loop multiplies matrices
  // Of a turn of its loop.
  enum class Turn : std::uint8_t {
    none,     ///< it is in no loop
    gathers,  ///< elementwise work, on what the loop carries
    stores,   ///< results of its own
    reduces,  ///< all of what it loads, before it goes on
  };
  Turn turn = Turn::none;
  int sites = 0;              ///< loads in the kernel's text
  std::int64_t elements = 0;  ///< of the largest
  int width = 1;              ///< elements of it that an instruction takes, at most
  int element_bytes = 4;
  // Of loads that are copied to shared memory so many turns less one ahead; 1: they are not.
  int stages = 1;
  std::int64_t turn_bytes = 0;
};

/// A product of tensors.
struct LoopProduct {
  std::int64_t times = 0;  ///< in all programs
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t depth = 0;
  std::int64_t bits = 0;       ///< of an element of its operands
  bool left_computed = false;  ///< its left operand is not as it was loaded
};

struct LaunchWork {
  std::vector<Round> rounds;
  std::int64_t product_flops = 0;
  std::int64_t reductions = 0;  ///< of a tensor to a scalar; and histograms, gathers
  std::int64_t elements = 0;    ///< of elementwise ops
  std::vector<LoopProduct> products;
  bool chained = false;  ///< one takes what another one of its loop made, as attention's do
  std::int64_t masked_elements = 0;  ///< that loops which multiply select by a mask
  /// Of programs, in their order, turns of the loop that multiplies; empty: as many each, or it is
  /// not known. Fewer than programs: the others as the first ones again.
  std::vector<double> turns;
  /// Of the kernel's products, of one program at a time.
  std::int64_t product_rows = 0;   ///< of the one with the fewest
  std::int64_t accumulators = 0;   ///< elements of all results
  std::int64_t operand_bytes = 0;  ///< that a turn of their loop loads
  std::int64_t kept_bytes = 0;     ///< of operands that are loaded before the loop
  std::int64_t held_bytes = 0;     ///< of left operands that are computed
  std::int64_t tile_elements = 0;  ///< of the largest tensor that is loaded
};

LaunchWork work_of(const Kernel& kernel, const LaunchResult& result);

}  // namespace tessera::triton
