// Which elements of a tile a thread holds when SIMT lanes compute.
//
// Threads stand in kWide columns and kHigh rows. A thread holds, of each row y, y + kHigh, ...,
// two neighbouring columns of every 2 kWide: 2 x, 2 x + 1, 2 x + 2 kWide, ... Tiles of one column
// (one row) are held by every thread of the row (column).
//
// kWide is 16: then the columns that one lane of a row reduction adds up (sim/ops/reduce.hpp) are
// one thread's, the threads of a row are half a warp, and a row of f32 is read and written 128
// bytes at a time. Kernels of vectors, whose blocks have one row, put all threads side by side.
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

/// kExchangeAt: where in shared memory threads exchange elements (cuda/exchange.hpp), or 0.
template <int kCount, int kSideBySide = kHalfWarp, int kExchangeAt = 0>
struct Threads : OnDevice {
  static_assert(kCount % 128 == 0 && kCount <= 896, "whole warpgroups, one of them left to fetch");
  static constexpr bool kTensorCores = false;
  static constexpr int kThreads = kCount;
  static constexpr int kExchange = kExchangeAt;
  static constexpr int kWide = kSideBySide;
  static constexpr int kHigh = kCount / kWide;
  /// Columns from one pair of a thread to its next.
  static constexpr int kApart = 2 * kWide;

  template <int kRows>
  static constexpr int kRowsHeld = kRows == 1 ? 1 : (kRows + kHigh - 1) / kHigh;
  template <int kCols>
  static constexpr int kColsHeld = kCols == 1 ? 1 : 2 * ((kCols + kApart - 1) / kApart);

  static __device__ __forceinline__ int x() { return static_cast<int>(threadIdx.x) % kWide; }
  static __device__ __forceinline__ int y() { return static_cast<int>(threadIdx.x) / kWide; }
  /// Of the threads that hold a tile's one column (one row), the one that writes it.
  static __device__ __forceinline__ bool first_of_row() { return x() == 0; }
  static __device__ __forceinline__ bool first_of_column() { return y() == 0; }
  template <int kRows>
  static __device__ __forceinline__ int row(int i) {
    return kRows == 1 ? 0 : y() + kHigh * i;
  }
  template <int kCols>
  static __device__ __forceinline__ int col(int j, int first = 2 * x()) {
    return kCols == 1 ? 0 : kApart * (j / 2) + first + j % 2;
  }
  static __device__ __forceinline__ int first_here() { return 2 * x(); }
  /// True if every row (column) that a thread may hold is one of the tile's.
  template <int kRows>
  static constexpr bool kWholeRows = kRows == 1 || kRows % kHigh == 0;
  template <int kCols>
  static constexpr bool kWholeCols = kCols == 1 || kCols % kApart == 0;

  /// Until every computing thread is here.
  static __device__ __forceinline__ void sync() { meet<kThreads>(); }

  /// Lanes of a row reduction that a thread holds: 2 x and 2 x + 1; held column j is in lane j % 2.
  static constexpr int kLanes = 2;
  template <class Combine, class T>
  static __device__ __forceinline__ T combine_lanes(T (&lane)[kLanes]) {
    static_assert(kWide == kHalfWarp && kApart == kReduceLanes, "rows of half a warp");
#pragma unroll
    for (int apart = kHalfWarp / 2; apart > 0; apart /= 2) {
#pragma unroll
      for (T& l : lane) l = apply_element<Combine>(l, shuffled(l, apart));
    }
    return apply_element<Combine>(lane[0], lane[1]);
  }
};

/// True if the place is one of the tile's.
template <class Th, int kRows, int kCols>
__device__ __forceinline__ bool inside(int r, int c) {
  return (Th::template kWholeRows<kRows> || r < kRows) &&
         (Th::template kWholeCols<kCols> || c < kCols);
}

}  // namespace tessera::cuda
