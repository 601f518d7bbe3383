// Extents of the order of reductions (sim/ops/reduce.hpp), which launches of GPUs are laid out for.
#pragma once

namespace tessera {

inline constexpr int kReduceLanes = 32;
/// Elements that are reduced together; longer rows, and columns, in chunks of as many.
inline constexpr int kReduceChunk = 512;

}  // namespace tessera
