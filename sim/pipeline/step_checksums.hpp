// What the blocks held, step by step: to find the first step at which two builds part.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "memory_model/layout.hpp"

namespace tessera {

/// Of scratch after a grid step; of an output block when it was written back, at the last step that
/// had it. Elements that nothing wrote, or that lie outside the array, do not count.
struct StepChecksum {
  int device = 0;
  std::array<int, 8> ids{};  ///< the grid step
  int operand = 0;           ///< of Plan::operands
  std::int64_t block = -1;   ///< of an output: its index, row-major over OperandPlan::blocks
  std::uint64_t checksum = 0;
};
using StepChecksums = std::vector<StepChecksum>;

}  // namespace tessera
