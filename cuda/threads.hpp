// Which elements of a tile a thread of the CTA holds.
//
// Threads stand in kWide columns and kHigh rows. A thread holds, of each row y, y + kHigh, ...,
// two neighbouring columns of every 2 kWide: 2 x, 2 x + 1, 2 x + 2 kWide, ... Tiles of one column
// (one row) are held by every thread of the row (column).
//
// kWide is 16: then the columns that one lane of a row reduction adds up (sim/ops/reduce.hpp) are
// one thread's, the threads of a row are half a warp, and a row of f32 is read and written 128
// bytes at a time. Kernels of vectors, whose blocks have one row, put all threads side by side.
#pragma once

#include "sim/ops/reduce.hpp"

namespace tessera::cuda {

inline constexpr int kHalfWarp = 16;

template <int kCount, int kSideBySide = kHalfWarp>
struct Threads {
  static_assert(kCount % 32 == 0 && kCount <= 1024, "whole warps, at most 1024 threads");
  static constexpr int kThreads = kCount;
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
  template <int kRows>
  static __device__ __forceinline__ int row(int i) {
    return kRows == 1 ? 0 : y() + kHigh * i;
  }
  template <int kCols>
  static __device__ __forceinline__ int col(int j) {
    return kCols == 1 ? 0 : kApart * (j / 2) + 2 * x() + j % 2;
  }
  /// True if every row (column) that a thread may hold is one of the tile's.
  template <int kRows>
  static constexpr bool kWholeRows = kRows == 1 || kRows % kHigh == 0;
  template <int kCols>
  static constexpr bool kWholeCols = kCols == 1 || kCols % kApart == 0;
  template <int kRows, int kCols>
  static __device__ __forceinline__ bool inside(int r, int c) {
    return (kWholeRows<kRows> || r < kRows) && (kWholeCols<kCols> || c < kCols);
  }
};

}  // namespace tessera::cuda
