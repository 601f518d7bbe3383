// Which elements of a tile a thread holds when tensor cores multiply: the accumulators of wgmma
// (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", D).
//
// A warpgroup has 64 rows of every 64 kCount, each of its warps 16 of them. A thread holds rows
// lane / 4 and lane / 4 + 8 of the 16, and of every 8 columns 2 (lane % 4) and the next. So rows
// are reduced over four threads, and a tile that one product made is the left operand of the next
// without a move.
//
// Elementary functions are the hardware's here (cuda/fast_math.hpp): tensor cores do not round as
// the exact profile does anyway.
#pragma once

#include "cuda/fast_math.hpp"
#include "cuda/threads.hpp"

namespace tessera::cuda {

template <int kCount, int kExchangeAt = 0>
struct Warpgroups : OnDevice {
  static_assert(kCount >= 1 && kCount <= 4, "one to four warpgroups compute");
  static constexpr bool kTensorCores = true;
  static constexpr bool kWgmma = true;
  static constexpr bool kFastFunctions = true;
  static constexpr int kThreads = 128 * kCount;
  static constexpr int kExchange = kExchangeAt;
  static constexpr int kHand = 0;
  /// Threads of a row, and columns from one pair of a thread to its next.
  static constexpr int kWide = 4;
  static constexpr int kApart = 2 * kWide;
  static constexpr int kSpan = kApart;
  /// Of a chunk of a reduction.
  static constexpr int kChunkHeld = kReduceChunk / kWide;
  static constexpr bool kTeams = false;
  template <int kRows, int kCols>
  static constexpr bool kWaits = kRows > 1 && kCols > 1;
  /// Rows that the CTA has at a time.
  static constexpr int kHigh = 64 * kCount;
  /// Columns of one product instruction: ptxas takes as many as a thread has sums for, half of
  /// them, and 26 other values in the registers that it begins with (one more warpgroup produces).
  static constexpr int kMostColumns = [] {
    const int registers = cta::registers_of(kCount, kSm).at_launch;
    const int most = (registers - 26) * 2 / 64 * 64;
    return most < 256 ? most : 256;
  }();

  template <int kRows>
  static constexpr int kRowsHeld = kRows == 1 ? 1 : 2 * ((kRows + kHigh - 1) / kHigh);
  template <int kCols>
  static constexpr int kColsHeld = kCols == 1 ? 1 : 2 * ((kCols + 7) / 8);

  /// By votes, so that the compiler knows it to be the warp's: descriptors of products are computed
  /// in uniform registers then, once for 32 threads.
  static __device__ __forceinline__ int warpgroup() {
    int n = 0;
    if constexpr (kCount > 1) n = __ballot_sync(0xffffffffu, threadIdx.x & 128) != 0 ? 1 : 0;
    if constexpr (kCount > 2) n += __ballot_sync(0xffffffffu, threadIdx.x & 256) != 0 ? 2 : 0;
    return n;
  }
  static __device__ __forceinline__ int x() { return static_cast<int>(threadIdx.x) % 4; }
  static __device__ __forceinline__ int of_row() { return x(); }
  static __device__ __forceinline__ bool first_of_row() { return x() == 0; }
  static __device__ __forceinline__ bool first_of_column() { return threadIdx.x < 4; }
  template <int kRows>
  static __device__ __forceinline__ int row(int i) {
    // Warps are 16 rows apart and lanes / 4 one: warpgroups come out at 64 by themselves.
    return kRows == 1 ? 0
                      : static_cast<int>(threadIdx.x) / 32 * 16 +
                            static_cast<int>(threadIdx.x) % 32 / 4 + 8 * (i % 2) + kHigh * (i / 2);
  }
  template <int kCols>
  static __device__ __forceinline__ int col(int j, int first = 2 * x()) {
    return kCols == 1 ? 0 : 8 * (j / 2) + first + j % 2;
  }
  /// col()'s `first`, for one place in a program. Without it the columns of a tile are computed
  /// once for all places, ahead, and are more than there are registers beside an accumulator.
  static __device__ __forceinline__ int first_here() {
    int first = 2 * x();
    asm volatile("" : "+r"(first));
    return first;
  }
  template <int kRows>
  static constexpr bool kWholeRows = kRows == 1 || kRows % kHigh == 0;
  template <int kCols>
  static constexpr bool kWholeCols = kCols == 1 || kCols % 8 == 0;

  /// The pairs that a thread holds of 32 columns, pair g of columns 8 g and on, exchanged among the
  /// four threads of a row for those of columns 8 x and on: side by side, 16 bytes of small floats.
  static __device__ __forceinline__ void gather_eight(unsigned (&pair)[4]) {
#pragma unroll
    for (int apart = 1; apart <= 2; apart *= 2) {
      const bool upper = (x() & apart) != 0;
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        if ((g & apart) != 0) continue;
        unsigned& low = pair[g];
        unsigned& high = pair[g + apart];
        const unsigned theirs = shuffled(upper ? low : high, apart);
        (upper ? low : high) = theirs;
      }
    }
  }

  static __device__ __forceinline__ void sync() { meet<kThreads>(); }

  /// Lanes 8 g + 2 x + b of a row reduction, g < 4, are held columns with j % 8 = 2 g + b.
  static constexpr int kLanes = 8;
  template <class Combine, class T>
  static __device__ __forceinline__ T combine_lanes(T (&lane)[kLanes]) {
#pragma unroll
    for (int apart = kLanes / 2; apart > 1; apart /= 2) {
#pragma unroll
      for (int l = 0; l < apart; ++l)
        lane[l] = compute<Warpgroups, Combine>(lane[l], lane[l + apart]);
    }
#pragma unroll
    for (int apart = 2; apart > 0; apart /= 2) {
      lane[0] = compute<Warpgroups, Combine>(lane[0], shuffled(lane[0], apart));
      lane[1] = compute<Warpgroups, Combine>(lane[1], shuffled(lane[1], apart));
    }
    return compute<Warpgroups, Combine>(lane[0], lane[1]);
  }
};

}  // namespace tessera::cuda
