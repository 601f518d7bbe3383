// Stores of a tile in mma.sync's layout, through shared memory.
//
// A warp has 8 of every 32 columns there (cuda/warps.hpp): of 16-bit elements half of a sector of
// L2, 32 bytes. Each half is a write of its own, and where the other warp's comes late L2 writes
// the first to DRAM and reads it again for the second: on an H200 1.8 MB each way of an output of
// 16 MB (predict/ACCURACY_CUDA.md). So the 16 rows of a warpgroup go through the bytes in which it
// hands over operands, and neighbouring threads store neighbouring bytes of a row: 16 each where
// rows begin at multiples of 16 bytes, else 4, or their elements where 4 bytes are not aligned.
#pragma once

#include "cuda/tile.hpp"

namespace tessera::cuda {

/// Whether a tile's stores go that way: of elements of which 8 are no sector, where a row has more
/// than one warp's, and several warpgroups drift apart. Of one, halves meet (25 kernels on an H200:
/// staged 0.92 to 1.10 of the time, 1.01 at the median).
template <class Th, class T, int kR, int kC>
constexpr bool is_staged() {
  if constexpr (Th::kHand == 0 || kIsPacked<T>)
    return false;
  else
    return Th::kHigh > 16 && kR > 16 && 8 * sizeof(T) < 32 && kC * sizeof(T) >= 32;
}

template <class Th>
struct Stage {
  static constexpr int kRows = 16;
  /// Bytes from row to row, whole lines of all banks.
  static constexpr int kPitch = cta::kHandBytes / (Th::kHigh / kRows) / kRows / 128 * 128;
  static_assert(kPitch > 0);

  int thread;  ///< of its warpgroup
  int warpgroup;

  /// Its places are computed here, not ahead and kept beside accumulators.
  __device__ __forceinline__ Stage() {
    int here = static_cast<int>(threadIdx.x);
    asm volatile("" : "+r"(here));
    thread = here % cta::kWarpgroup;
    warpgroup = here / cta::kWarpgroup;
  }

  /// 16 bytes of neighbouring rows lie in different banks.
  __device__ __forceinline__ SharedAt at(int row, int byte) const {
    return static_cast<SharedAt>(Th::kHand + (warpgroup * kRows + row) * kPitch +
                                 (byte ^ (row % 8 * 16)));
  }
};

/// Two elements, and 4 or 16 bytes of them. By addresses of 32 bits: generic ones take registers
/// beside accumulators, of which flash_attention_dq spilled 192 bytes for 88.
template <class T>
__device__ __forceinline__ void write_shared(SharedAt to, const T (&two)[2]) {
  if constexpr (sizeof two == 4) {
    unsigned bits;
    __builtin_memcpy(&bits, two, sizeof bits);
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(bits) : "memory");
  } else {
    static_assert(sizeof two == 2);
    unsigned short bits;
    __builtin_memcpy(&bits, two, sizeof bits);
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(to), "h"(bits) : "memory");
  }
}
template <int kCount, class T>
__device__ __forceinline__ void read_shared(SharedAt from, T (&held)[kCount]) {
  if constexpr (sizeof held == 16) {
    uint4 bits;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "r"(from)
                 : "memory");
    __builtin_memcpy(held, &bits, sizeof held);
  } else {
    static_assert(sizeof held == 4);
    unsigned bits;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(bits) : "r"(from) : "memory");
    __builtin_memcpy(held, &bits, sizeof held);
  }
}

/// Columns [begin, begin + kCount) of the staged rows, which are rows `first` and on of kR, kBytes
/// at a time; where kBytes is 16 every row begins at a multiple of it.
template <class Th, int kR, int kCount, int kBytes, class T, class R, class Keep>
__device__ __forceinline__ void store_pieces(T* array, const R& where, const Stage<Th>& stage,
                                             int first, int begin, int columns, Keep keep) {
  constexpr int kOfPiece = kBytes / static_cast<int>(sizeof(T));
  constexpr int kOfRow = (kCount + kOfPiece - 1) / kOfPiece;
#pragma unroll 1
  for (int piece = stage.thread; piece < Stage<Th>::kRows * kOfRow; piece += cta::kWarpgroup) {
    const int row = piece / kOfRow;
    const int at = piece % kOfRow * kOfPiece;
    const int r = first + row;
    const long long to = r < kR ? where.row(r) : -1;
    if (to < 0) continue;
    T held[kOfPiece];
    read_shared(stage.at(row, at * static_cast<int>(sizeof(T))), held);
    const int c = begin + at;
    bool all = c + kOfPiece <= columns &&
               (kBytes == 16 || reinterpret_cast<unsigned long long>(array + to + c) % kBytes == 0);
#pragma unroll
    for (int e = 0; e < kOfPiece; ++e) all = all && keep(r, c + e, 0, 0);
    if (all) {
      write<kOfPiece, true>(array + to + c, held);
    } else {
#pragma unroll
      for (int e = 0; e < kOfPiece; ++e) {
        if (c + e < columns && keep(r, c + e, 0, 0)) array[to + c + e] = held[e];
      }
    }
  }
}

/// store_region() of a tile of which is_staged(); every computing thread is here.
template <class Th, class T, class R, class X, class Keep>
__device__ __forceinline__ void store_staged(T* array, const R& where, const X& x, Keep keep) {
  static_assert(Keep::kByPlace);
  using Staged = Stage<Th>;
  constexpr int kR = kRowsOf<X>;
  constexpr int kC = kColsOf<X>;
  constexpr int kSize = static_cast<int>(sizeof(T));
  constexpr int kRowsHeld = Th::template kRowsHeld<kR>;
  constexpr int kHeld = Th::template kColsHeld<kC>;
  constexpr int kFit = Staged::kPitch / (Th::kSpan * kSize) * 2;
  constexpr int kAtATime = kFit < kHeld ? kFit : kHeld;
  constexpr int kCount = Th::kSpan * (kAtATime / 2);
  static_assert(kAtATime > 0);
  const Staged stage;
  const int first_column = stage.thread / 32 * 8 + stage.thread % 4 * 2;
  const int columns = where.columns();
  const bool by16 = where.rows_aligned(array, 16);
#pragma unroll
  for (int i = 0; i < kRowsHeld; i += 2) {
    const int first = 16 * stage.warpgroup + Th::kHigh * (i / 2);
#pragma unroll
    for (int j = 0; j < kHeld; j += kAtATime) {
#pragma unroll
      for (int e = 0; e < 2 && i + e < kRowsHeld; ++e) {
#pragma unroll
        for (int n = 0; n < kAtATime && j + n < kHeld; n += 2) {
          const T two[2] = {x.at(i + e, j + n), x.at(i + e, j + n + 1)};
          write_shared(stage.at(stage.thread % 32 / 4 + 8 * e,
                                Th::template col<kC>(n, first_column) * kSize),
                       two);
        }
      }
      Th::sync_warpgroup();
      const int begin = Th::kSpan * (j / 2);
      if (by16)
        store_pieces<Th, kR, kCount, 16>(array, where, stage, first, begin, columns, keep);
      else
        store_pieces<Th, kR, kCount, 4>(array, where, stage, first, begin, columns, keep);
      Th::sync_warpgroup();
    }
  }
  Th::sync();  // operands of all warpgroups are handed over there
}

}  // namespace tessera::cuda
