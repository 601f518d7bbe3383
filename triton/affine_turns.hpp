// Turns of a loop as one step.
//
// Of a loop that does nothing but multiply tiles which lie in the caller's memory (lent.hpp) for
// running sums (running_sums.hpp), where addresses are affine in the turn, the first turn runs as
// ever. What its addresses are in the last turn is computed next, and so is where all tiles in
// between lie: they are accessed, counted and handed to the products together. What is proven of
// both ends holds in between: an affine integer that fits its type, a comparison (other than for
// inequality) that holds, bytes that are inside and defined. Where something of it does not hold,
// the loop goes on turn by turn; so does a last turn whose mask leaves lanes out.
//
// Left out: loops that do anything else, carry integers that do not grow by the same number each
// turn, or run dry.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "program/planner.hpp"
#include "triton/memory.hpp"

namespace tessera::triton {

using namespace program;

/// A load that may lend.
struct LentLoad {
  std::size_t step = 0;
  int site = 0;
  std::int64_t width = 0;
  int to = -1;  ///< the vector
  /// What it would access now, with bytes between rows and columns; nothing unless these are all
  /// lanes, at regular addresses.
  std::function<std::optional<Strided>(const Exec&, Lent&)> lanes;
};

/// A tile in each of some turns.
struct MovingTile {
  const std::byte* first = nullptr;
  std::int64_t apart = 0;  ///< bytes from turn to turn
};

/// A product for a running sum.
struct SumOfProducts {
  std::size_t step = 0;
  int left = -1;  ///< vectors
  int right = -1;
  /// The product of this turn waits.
  std::function<bool(Instance&)> waits;
  /// Those of so many more turns follow it.
  std::function<void(Instance&, const MovingTile& left, const MovingTile& right, std::int64_t n)>
      follow;
};

/// At the end of a turn of a loop whose body is planned: emits the step that does the turns which
/// follow the first, if the loop is such a one. `loads` and `products`: the kernel's so far.
void plan_affine_turns(Planner& p, const Operation& loop, const Planner::Counter& counter,
                       const std::vector<LentLoad>& loads,
                       const std::vector<SumOfProducts>& products);

}  // namespace tessera::triton
