// Tiles that a product reads where they lie, in the caller's memory, and not from a copy.
//
// The product is the load's only user, in its block, and nothing between the two may write. The
// load checks and counts as ever; whether it lends is decided when it runs: of memory that no
// program of the launch writes, where all lanes are regular, in bounds and defined.
#pragma once

#include <cstdint>
#include <vector>

#include "program/ir.hpp"

namespace tessera::triton {

using namespace program;

/// A vector that is lent: elements from row to row and from column to column.
struct Lent {
  bool lent = false;  ///< else it is dense
  std::int64_t row = 0;
  std::int64_t col = 0;
};

/// By value: the tiles that may be lent.
std::vector<bool> lent_tiles(const Module& module, const Function& kernel);

/// An op that writes nothing, calls nothing and waits for nobody.
bool leaves_memory(const Operation& op);

}  // namespace tessera::triton
