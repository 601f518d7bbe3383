// How often values are operands.
#pragma once

#include <vector>

#include "program/ir.hpp"

namespace tessera::program {

/// Adds those of a region, by value.
inline void count_uses(const Region& r, std::vector<int>& uses) {
  for (const Operation& op : r.operations) {
    for (const int v : op.operands) ++uses[static_cast<std::size_t>(v)];
    for (const Region& each : op.regions) count_uses(each, uses);
  }
  for (const Region& other : r.others) count_uses(other, uses);
}

}  // namespace tessera::program
