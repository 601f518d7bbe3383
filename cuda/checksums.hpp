// What accumulators held, step by step, for `tessera golden bisect --backend cuda`: in a build with
// TESSERA_STEP_CHECKSUMS, which costs registers and an atomic per thread and step.
//
// Rows of a cell lie together, one per step and accumulator, in the order of the steps. Every
// computing thread adds the part of the sum that it holds (sim/ops/checksum.hpp).
#pragma once

#include "cuda/tile.hpp"
#include "sim/ops/checksum.hpp"

namespace tessera::cuda {

inline constexpr int kMostStepIds = 8;

struct StepRow {
  unsigned long long checksum;
  int used;
  int ids[kMostStepIds];
};

/// Rows of a launch, in device memory: [cells][steps][accumulators], all zero before it.
struct StepTable {
  StepRow* rows = nullptr;  ///< null: none are kept
  int steps = 0;            ///< of a cell, at most; what lies beyond is not kept
};

template <class Th, class T, int kR, int kC>
__device__ __forceinline__ unsigned long long checksum_held(const RegTile<Th, T, kR, kC>& tile) {
  unsigned long long sum = 0;
  if (kR == 1 && !Th::first_of_column()) return sum;
  if (kC == 1 && !Th::first_of_row()) return sum;
#pragma unroll
  for (int i = 0; i < Th::template kRowsHeld<kR>; ++i) {
#pragma unroll
    for (int j = 0; j < Th::template kColsHeld<kC>; ++j) {
      const int r = Th::template row<kR>(i);
      const int c = Th::template col<kC>(j);
      if (inside<Th, kR, kC>(r, c)) sum += checksum_of(r * kC + c, tile.at(i, j));
    }
  }
  return sum;
}

}  // namespace tessera::cuda
