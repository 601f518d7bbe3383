// Which elements of a tile a thread holds when SIMT lanes compute.
//
// Threads stand in kWide columns and kHigh rows. A thread holds rows y, y + kHigh, ... Half a warp
// takes 512 columns of a row, a chunk of a reduction (sim/ops/reduce.hpp); kHalfWarps of them stand
// side by side and take the next chunks after those. Of a chunk a thread holds two neighbouring
// columns of every 32: 2 x, 2 x + 1, 2 x + 32, ... So the columns that one lane of a reduction adds
// up are one thread's, and a row of f32 is read and written 128 bytes at a time. Tiles of one
// column (one row) are held by every thread of the row (column).
//
// Where rows are longer than a chunk (sim/body/cta.hpp: LongRows), the half-warps of a row hand one
// another what their chunks are reduced to through shared memory: a team, which meets by itself.
//
// cuda/warpgroups.hpp is the other layout, with the same members.
#pragma once

#include "cuda/barrier.hpp"
#include "sim/ops/reduce.hpp"

namespace tessera {

/// A base of the layouts and of the places of refs: what makes argument-dependent lookup find the
/// ops for their tiles from any namespace.
struct OnDevice {};

}  // namespace tessera

namespace tessera::cuda {

inline constexpr int kHalfWarp = 16;

/// The value of the lane `apart` away. Every warp is whole here.
template <class T>
__device__ __forceinline__ T shuffled(T v, int apart) {
  if constexpr (kIsSmallFloat<T>) {
    // Exact, and back: every small float is an f32.
    return T(__shfl_xor_sync(0xffffffffu, static_cast<float>(v), apart));
  } else {
    return __shfl_xor_sync(0xffffffffu, v, apart);
  }
}

/// kExchangeAt, kChunksAt: where in shared memory threads exchange elements (cuda/exchange.hpp),
/// and what chunks of rows are reduced to; 0 for nowhere. kFast: functions are the hardware's
/// (cuda/fast_math.hpp). kLazyTiles: there are no registers for a tile.
template <int kCount, int kHalfWarps = 1, int kExchangeAt = 0, int kChunksAt = 0,
          bool kFast = false, bool kLazyTiles = false>
struct Threads : OnDevice {
  static_assert(kCount % 128 == 0 && kCount <= 896, "whole warpgroups, one of them left to fetch");
  static constexpr bool kTensorCores = false;
  static constexpr bool kWgmma = false;
  static constexpr bool kFastFunctions = kFast;
  static constexpr int kThreads = kCount;
  static constexpr int kExchange = kExchangeAt;
  static constexpr int kHand = 0;
  static constexpr int kWide = kHalfWarp * kHalfWarps;
  static constexpr int kHigh = kCount / kWide;
  static_assert(kHigh > 0);
  /// Columns from one pair of a thread to its next in a chunk.
  static constexpr int kApart = 2 * kHalfWarp;
  /// Columns that begin anew with the thread that has the first.
  static constexpr int kSpan = kHalfWarps == 1 ? kApart : kReduceChunk * kHalfWarps;
  /// Of a chunk.
  static constexpr int kChunkHeld = kReduceChunk / kHalfWarp;
  /// Whether ops on a tile of these extents wait until somebody wants its elements.
  template <int kRows, int kCols>
  static constexpr bool kWaits = (kLazyTiles && kCols > 1);

  template <int kRows>
  static constexpr int kRowsHeld = kRows == 1 ? 1 : (kRows + kHigh - 1) / kHigh;
  template <int kCols>
  static constexpr int kColsHeld = [] {
    if (kCols == 1) return 1;
    if (kHalfWarps == 1 || kCols <= kReduceChunk) return 2 * ((kCols + kApart - 1) / kApart);
    return kChunkHeld * ((kCols + kSpan - 1) / kSpan);
  }();

  static __device__ __forceinline__ int x() { return static_cast<int>(threadIdx.x) % kHalfWarp; }
  static __device__ __forceinline__ int y() { return static_cast<int>(threadIdx.x) / kWide; }
  /// Which of the kWide threads of its row.
  static __device__ __forceinline__ int of_row() { return static_cast<int>(threadIdx.x) % kWide; }
  /// Which half-warp of its row.
  static __device__ __forceinline__ int half_warp() {
    return kHalfWarps == 1 ? 0 : static_cast<int>(threadIdx.x) / kHalfWarp % kHalfWarps;
  }
  /// Of the threads that hold a tile's one column (one row), the one that writes it.
  static __device__ __forceinline__ bool first_of_row() { return of_row() == 0; }
  static __device__ __forceinline__ bool first_of_column() { return y() == 0; }
  template <int kRows>
  static __device__ __forceinline__ int row(int i) {
    return kRows == 1 ? 0 : y() + kHigh * i;
  }
  template <int kCols>
  static __device__ __forceinline__ int col(int j, int first = first_here()) {
    return kCols == 1 ? 0
                      : kHalfWarps * kReduceChunk * (j / kChunkHeld) +
                            kApart * (j % kChunkHeld / 2) + first + j % 2;
  }
  static __device__ __forceinline__ int first_here() {
    return 2 * x() + kReduceChunk * half_warp();
  }
  /// True if every row (column) that a thread may hold is one of the tile's.
  template <int kRows>
  static constexpr bool kWholeRows = kRows == 1 || kRows % kHigh == 0;
  template <int kCols>
  static constexpr bool kWholeCols = kCols == 1 || kCols % kSpan == 0;

  /// Until every computing thread is here.
  static __device__ __forceinline__ void sync() { meet<kThreads>(); }

  /// Lanes of a row reduction that a thread holds: 2 x and 2 x + 1; held column j is in lane j % 2.
  static constexpr int kLanes = 2;
  template <class Combine, class T>
  static __device__ __forceinline__ T combine_lanes(T (&lane)[kLanes]) {
    static_assert(kApart == kReduceLanes);
#pragma unroll
    for (int apart = kHalfWarp / 2; apart > 0; apart /= 2) {
#pragma unroll
      for (T& l : lane) l = apply_element<Combine>(l, shuffled(l, apart));
    }
    return apply_element<Combine>(lane[0], lane[1]);
  }

  /// Several half-warps have a row.
  static constexpr bool kTeams = kHalfWarps > 1;
  static __device__ __forceinline__ void sync_team() {
    if constexpr (kHalfWarps == 2)
      __syncwarp();
    else
      asm volatile("bar.sync %0, %1;" ::"r"(2 + y()), "n"(kWide) : "memory");
  }
  static constexpr int kHalfWarpsOfRow = kHalfWarps;
  /// Where what the kChunks chunks of held row i gave lies.
  template <int kChunks, class T>
  static __device__ __forceinline__ T* chunks_of(int i) {
    static_assert(sizeof(T) <= 4, "rows of more than 512 columns are reduced in 32 bits");
    auto* const all =
        static_cast<T*>(__cvta_shared_to_generic(static_cast<std::size_t>(kChunksAt)));
    return all + (y() + kHigh * i) * kChunks;
  }
};

/// True if the place is one of the tile's.
template <class Th, int kRows, int kCols>
__device__ __forceinline__ bool inside(int r, int c) {
  return (Th::template kWholeRows<kRows> || r < kRows) &&
         (Th::template kWholeCols<kCols> || c < kCols);
}

}  // namespace tessera::cuda
