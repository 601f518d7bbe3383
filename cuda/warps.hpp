// Which elements of a tile a thread holds when tensor cores multiply by mma.sync: the accumulators
// of m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"). For what wgmma does not take: few
// rows, and columns of any multiple of 8. Nothing in it is Hopper's own.
//
// A warpgroup has 16 rows of every 16 kCount, its four warps every fourth 8 columns of them. A
// thread holds rows lane / 4 and lane / 4 + 8 of the 16 (of 8 rows the first alone), and of its
// warp's 8 columns 2 (lane % 4) and the next. So a lane of a row's reduction is one thread's, and
// the lanes of a row meet in shared memory.
//
// Where groups of warps do the runs of a sum (sim/body/runs.hpp) a group is a warpgroup by itself,
// of kAcross warps: it has a run's tiles, and all of the steps of that run. Groups hand nothing
// over but what runs give (cuda/runs.hpp).
#pragma once

#include "cuda/fast_math.hpp"
#include "cuda/threads.hpp"

namespace tessera::cuda {

/// kHandAt: where in shared memory left operands, and lanes of reductions, are handed over
/// (cta::hand_bytes of them).
template <int kCount, int kHandAt, int kExchangeAt = 0, int kAcross = 4, int kSideBySide = 1>
struct Warps : OnDevice {
  static_assert(kCount >= 1 && kCount <= 4, "one to four warpgroups compute");
  static constexpr bool kTensorCores = true;
  static constexpr bool kWgmma = false;
  static constexpr bool kFastFunctions = true;
  static constexpr int kGroups = kSideBySide;
  static_assert(kGroups == 1 || kCount == 1, "groups are of 16 rows");
  /// Of a group.
  static constexpr int kThreads = 32 * kAcross * kCount;
  static constexpr int kExchange = kExchangeAt;
  static constexpr int kHand = kHandAt;
  /// Threads of a row.
  static constexpr int kWide = 4 * kAcross;
  /// Columns that begin anew with the thread that has the first.
  static constexpr int kSpan = 8 * kAcross;
  /// Of a chunk of a reduction.
  static constexpr int kChunkHeld = kReduceChunk / kWide;
  static constexpr bool kTeams = false;
  template <int kRows, int kCols>
  static constexpr bool kWaits = kRows > 1 && kCols > 1;
  /// Rows that the CTA has at a time.
  static constexpr int kHigh = 16 * kCount;

  template <int kRows>
  static constexpr int kRowsHeld = kRows <= 8 ? 1 : 2 * ((kRows + kHigh - 1) / kHigh);
  template <int kCols>
  static constexpr int kColsHeld = kCols == 1 ? 1 : 2 * ((kCols + kSpan - 1) / kSpan);

  static __device__ __forceinline__ int warpgroup() {
    return kCount == 1 ? 0 : static_cast<int>(threadIdx.x) / cta::kWarpgroup;
  }
  static __device__ __forceinline__ int group() {
    return kGroups == 1 ? 0 : __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kThreads, 0);
  }
  /// Of its warpgroup's.
  static __device__ __forceinline__ int warp() {
    return static_cast<int>(threadIdx.x) / 32 % kAcross;
  }
  static __device__ __forceinline__ int x() { return static_cast<int>(threadIdx.x) % 4; }
  static __device__ __forceinline__ int y() { return static_cast<int>(threadIdx.x) % 32 / 4; }
  static __device__ __forceinline__ int of_row() { return 4 * warp() + x(); }
  static __device__ __forceinline__ bool first_of_row() { return of_row() == 0; }
  static __device__ __forceinline__ bool first_of_column() { return y() == 0 && warpgroup() == 0; }
  template <int kRows>
  static __device__ __forceinline__ int row(int i) {
    return kRows == 1 ? 0 : y() + 16 * warpgroup() + 8 * (i % 2) + kHigh * (i / 2);
  }
  template <int kCols>
  static __device__ __forceinline__ int col(int j, int first = 8 * warp() + 2 * x()) {
    return kCols == 1 ? 0 : kSpan * (j / 2) + first + j % 2;
  }
  static __device__ __forceinline__ int first_here() {
    int first = 8 * warp() + 2 * x();
    asm volatile("" : "+r"(first));
    return first;
  }
  template <int kRows>
  static constexpr bool kWholeRows = kRows == 1 || kRows % kHigh == 0 ||
                                     (kRows == 8 && kCount == 1);
  template <int kCols>
  static constexpr bool kWholeCols = kCols == 1 || kCols % kSpan == 0;

  static __device__ __forceinline__ void sync() {
    if constexpr (kGroups == 1)
      meet<kThreads>();
    else
      asm volatile("bar.sync %0, %1;" ::"r"(2 + group()), "n"(kThreads) : "memory");
  }
  static __device__ __forceinline__ void sync_warpgroup() {
    asm volatile("bar.sync %0, %1;" ::"r"(2 + warpgroup()), "n"(cta::kWarpgroup) : "memory");
  }

  /// Lanes 8 warp + 2 x and the next of a row reduction; held column j is in lane j % 2 of them.
  static constexpr int kLanes = 2;
  template <class Combine, class T>
  static __device__ __forceinline__ T combine_lanes(T (&lane)[kLanes]) {
    static_assert(kGroups == 1, "runs of a sum side by side reduce no rows of more than a column");
    static_assert(sizeof(T) <= 4 && kSpan == kReduceLanes);
    auto* const all = static_cast<T*>(__cvta_shared_to_generic(
        static_cast<std::size_t>(kHandAt + cta::kHandBytes + warpgroup() * cta::kLaneBytes)));
    T* const of_row = all + y() * cta::kLanePitch + 2 * x();
#pragma unroll
    for (int l = 0; l < kLanes; ++l) of_row[8 * warp() + l] = lane[l];
    sync_warpgroup();
#pragma unroll
    for (int l = 0; l < kLanes; ++l) {
      lane[l] = compute<Warps, Combine>(compute<Warps, Combine>(of_row[l], of_row[16 + l]),
                                        compute<Warps, Combine>(of_row[8 + l], of_row[24 + l]));
    }
    sync_warpgroup();  // nobody puts another reduction's there before
#pragma unroll
    for (int apart = 2; apart > 0; apart /= 2) {
#pragma unroll
      for (T& l : lane) l = compute<Warps, Combine>(l, shuffled(l, apart));
    }
    return compute<Warps, Combine>(lane[0], lane[1]);
  }
};

}  // namespace tessera::cuda
