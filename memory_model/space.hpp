// The memories of the machine, and what has been placed in them.
//
// HBM and HOST belong to a device; VMEM, SMEM and SEMAPHORE to a core. On a GPU spec VMEM is shared
// memory and SMEM is kernel parameters; REGISTERS holds `accum` scratch there and is not counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory_model/layout.hpp"

namespace tessera {

enum class Space : std::uint8_t { host, hbm, vmem, smem, semaphore, registers };

constexpr const char* name(Space s) {
  constexpr const char* kNames[] = {"HOST", "HBM", "VMEM", "SMEM", "SEMAPHORE", "REGISTERS"};
  return kNames[static_cast<int>(s)];
}

/// Something placed in a space: `copies` buffers (2 for a double-buffered block) of `bytes` padded
/// bytes.
struct Allocation {
  std::string name;
  Space space = Space::vmem;
  DType dtype = DType::f32;
  Shape shape;
  int copies = 1;
  std::int64_t bytes = 0;
  std::int64_t total_bytes() const { return bytes * copies; }
};

inline std::int64_t bytes_in(const std::vector<Allocation>& allocations, Space space) {
  std::int64_t sum = 0;
  for (const auto& a : allocations) {
    if (a.space == space) sum += a.total_bytes();
  }
  return sum;
}

}  // namespace tessera
