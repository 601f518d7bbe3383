// Parallel dims behind an arbitrary one: their steps take turns on a core, and each may be another
// core's.
//
// What one inner cell wrote is stale for the others, as what a cell of the leading dims left is;
// and it is there again when its own turn comes. Memory that is the same for all of them is one
// core's: on several, each has its own.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/pipeline/block.hpp"

namespace tessera {

class InnerCells {
 public:
  explicit InnerCells(const Plan& plan);

  /// True if there are several.
  bool any() const { return cells_ > 1; }
  /// The inner cell of a step.
  std::int64_t number_of(const int* ids) const;
  /// Of all cells, from 0: what claims a block of an output.
  std::int64_t claim_of(std::int64_t cell, const int* ids) const {
    return any() ? cell * cells_ + number_of(ids) : cell;
  }
  /// A step is about to run: blocks hold what its inner cell wrote, and the rest is stale.
  void enter(const int* ids, const std::vector<Block*>& blocks);
  /// Another block of an output begins, or another cell: nobody has written there.
  void forget(const Block& block) { written_.erase(&block); }
  void forget_all() {
    written_.clear();
    now_ = -1;
  }

 private:
  struct Written {
    std::vector<std::int32_t> by;  ///< per element: 1 + the inner cell; 0: none
    std::vector<Shadow::State> state;
  };

  const Plan& plan_;
  std::int64_t cells_;
  std::int64_t now_ = -1;
  std::map<const Block*, Written> written_;
};

}  // namespace tessera
