// Elements that threads hand to one another through shared memory: reductions of columns, tiles
// whose elements move to other places, and right operands of products.
//
// Every computing thread takes part; they meet (Th::sync()) after they have written and after they
// have read. Tiles that lie in shared memory are read where they lie.
#pragma once

#include <bit>

#include "cuda/barrier.hpp"
#include "cuda/threads.hpp"

namespace tessera::cuda {

/// kExchangeBytes of shared memory.
template <class Th, class T>
__device__ __forceinline__ T* exchange() {
  static_assert(Th::kExchange > 0,
                "the body reduces columns, moves elements from thread to thread or multiplies by a "
                "right operand in registers: its kernel says "
                "static constexpr bool exchanges = true, and it has no runs of a sum");
  return static_cast<T*>(__cvta_shared_to_generic(static_cast<std::size_t>(Th::kExchange)));
}

/// Whether this thread is the one that hands on what it holds: tiles of one row, or one column, are
/// held by several.
template <class Th, int kR, int kC>
__device__ __forceinline__ bool hands_on() {
  return (kR > 1 || Th::first_of_column()) && (kC > 1 || Th::first_of_row());
}

struct At {
  int row;
  int col;
};

/// What `take(i, j, element)` gets of every place (i, j) that this thread holds of a kR x kC tile:
/// the element of `x` at from(row, col).
template <class Th, int kR, int kC, int kFromR, int kFromC, class X, class From, class Take>
__device__ __forceinline__ void hand_over(const X& x, From from, Take take) {
  using T = typename X::Element;
  constexpr int kRowBytes = kFromC * static_cast<int>(sizeof(T));
  static_assert(kRowBytes <= cta::kExchangeBytes, "rows of at most 16 KiB are exchanged");
  constexpr int kFit = cta::kExchangeBytes / kRowBytes;
  constexpr int kAtATime = kFit < kFromR ? kFit : kFromR;
  T* const held = exchange<Th, T>();
  const bool writes = hands_on<Th, kFromR, kFromC>();
#pragma unroll 1
  for (int first = 0; first < kFromR; first += kAtATime) {
#pragma unroll
    for (int i = 0; i < Th::template kRowsHeld<kFromR>; ++i) {
      const int r = Th::template row<kFromR>(i);
      if (!writes || r < first || r >= first + kAtATime) continue;
#pragma unroll
      for (int j = 0; j < Th::template kColsHeld<kFromC>; ++j) {
        const int c = Th::template col<kFromC>(j);
        if (inside<Th, kFromR, kFromC>(r, c)) held[(r - first) * kFromC + c] = x.at(i, j);
      }
    }
    Th::sync();
#pragma unroll
    for (int i = 0; i < Th::template kRowsHeld<kR>; ++i) {
#pragma unroll
      for (int j = 0; j < Th::template kColsHeld<kC>; ++j) {
        const int r = Th::template row<kR>(i);
        const int c = Th::template col<kC>(j);
        if (!inside<Th, kR, kC>(r, c)) continue;
        const At at = from(r, c);
        if (at.row >= first && at.row < first + kAtATime)
          take(i, j, held[(at.row - first) * kFromC + at.col]);
      }
    }
    Th::sync();
  }
}

/// What so many chunks gave, reduced: where lanes that are the identity are left out, the same
/// bits.
template <int kCount, class T, class Combine>
__device__ __forceinline__ T reduce_few(T (&of)[kCount], Combine combine) {
  static_assert(kCount <= kReduceLanes, "rows and columns of at most 16,384 elements");
#pragma unroll
  for (int apart = kReduceLanes / 2; apart > 0; apart /= 2) {
#pragma unroll
    for (int l = 0; l + apart < kCount && l < apart; ++l) of[l] = combine(of[l], of[l + apart]);
  }
  return of[0];
}

/// What lanes kFirst, kFirst + kApart, ... of the kCount that are there are reduced to. Lane l lies
/// at lane[l * pitch]; the others are the identity.
template <int kFirst, int kApart, int kCount, class T, class Combine>
__device__ __forceinline__ T reduce_lanes(const T* lane, int pitch, Combine combine) {
  if constexpr (kApart == kReduceLanes) {
    return lane[kFirst * pitch];
  } else {
    const T here = reduce_lanes<kFirst, 2 * kApart, kCount>(lane, pitch, combine);
    if constexpr (kFirst + kApart >= kCount)
      return here;
    else
      return combine(here, reduce_lanes<kFirst + kApart, 2 * kApart, kCount>(lane, pitch, combine));
  }
}

/// How many of the columns that a thread holds of a tile of kR rows are exchanged at a time, an
/// even number; 0 if not two of each thread's.
template <class Th, int kR, class T>
constexpr int kColumnsExchanged = cta::kExchangeBytes / static_cast<int>(sizeof(T)) / kR /
                                  (2 * Th::kWide) * 2;

/// reduce_down() of at most 32 rows, each of which is a lane: every element is made once.
template <class Th, int kR, int kC, class X, class T, class Combine, class Take>
__device__ __forceinline__ void reduce_few_rows(const X& x, T identity, Combine combine,
                                                Take take) {
  constexpr int kHeld = Th::template kColsHeld<kC>;
  constexpr int kFit = kColumnsExchanged<Th, kR, T>;
  constexpr int kGroup = kFit < kHeld ? kFit : kHeld;
  constexpr int kPitch = kC == 1 ? 1 : kGroup * Th::kWide;
  T* const lane = exchange<Th, T>();  // [row][columns of a group]
  const bool hands = hands_on<Th, kR, kC>();
  const auto place = [](int j) {
    return kC == 1 ? 0 : (j / 2 * Th::kWide + Th::of_row()) * 2 + j % 2;
  };
#pragma unroll
  for (int begin = 0; begin < kHeld; begin += kGroup) {
#pragma unroll
    for (int i = 0; i < Th::template kRowsHeld<kR>; ++i) {
      const int r = Th::template row<kR>(i);
      if (!hands) continue;
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        if (begin + j >= kHeld || !inside<Th, kR, kC>(r, Th::template col<kC>(begin + j))) continue;
        lane[r * kPitch + place(j)] = combine(identity, x.at(i, begin + j));
      }
    }
    Th::sync();
    for (int n = static_cast<int>(threadIdx.x); n < kPitch; n += Th::kThreads)
      lane[n] = reduce_lanes<0, 1, kR>(lane + n, kPitch, combine);
    Th::sync();
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      if (begin + j < kHeld && inside<Th, 1, kC>(0, Th::template col<kC>(begin + j)))
        take(begin + j, lane[place(j)]);
    }
    Th::sync();
  }
}

/// reduce_down() of any number of rows, 32 in a round: elements are made anew for as many columns
/// as the exchange holds the lanes of.
template <class Th, int kR, int kC, class X, class T, class Combine, class Take>
__device__ __forceinline__ void reduce_in_rounds(const X& x, T identity, Combine combine,
                                                 Take take) {
  constexpr int kChunks = (kR + kReduceChunk - 1) / kReduceChunk;
  // Lanes, and of several chunks what they gave.
  constexpr int kFit = cta::kExchangeBytes / static_cast<int>(sizeof(T)) /
                       (kReduceLanes + (kChunks > 1 ? kChunks : 0));
  constexpr int kWide = kFit < kC ? kFit : kC;
  T* const lane = exchange<Th, T>();  // [lane][column]
  T* const reduced = lane + kReduceLanes * kWide;
  const int thread = static_cast<int>(threadIdx.x);
  const bool hands = hands_on<Th, kR, kC>();
#pragma unroll 1
  for (int begin = 0; begin < kC; begin += kWide) {
    const auto here = [&](int c) { return c >= begin && c < begin + kWide; };
#pragma unroll 1
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      for (int n = thread; n < kReduceLanes * kWide; n += Th::kThreads) lane[n] = identity;
      Th::sync();
#pragma unroll 1
      for (int first = chunk * kReduceChunk; first < kR && first < (chunk + 1) * kReduceChunk;
           first += kReduceLanes) {
#pragma unroll
        for (int i = 0; i < Th::template kRowsHeld<kR>; ++i) {
          const int r = Th::template row<kR>(i);
          if (!hands || r < first || r >= first + kReduceLanes) continue;
#pragma unroll
          for (int j = 0; j < Th::template kColsHeld<kC>; ++j) {
            const int c = Th::template col<kC>(j);
            if (!inside<Th, kR, kC>(r, c) || !here(c)) continue;
            T& sum = lane[(r - first) * kWide + c - begin];
            sum = combine(sum, x.at(i, j));
          }
        }
        Th::sync();
      }
#pragma unroll 1
      for (int apart = kReduceLanes / 2; apart > 0; apart /= 2) {
        for (int n = thread; n < apart * kWide; n += Th::kThreads)
          lane[n] = combine(lane[n], lane[n + apart * kWide]);
        Th::sync();
      }
      if constexpr (kChunks > 1) {
        for (int n = thread; n < kWide; n += Th::kThreads) reduced[chunk * kWide + n] = lane[n];
        Th::sync();
      }
    }
#pragma unroll
    for (int j = 0; j < Th::template kColsHeld<kC>; ++j) {
      const int c = Th::template col<kC>(j);
      if (!inside<Th, 1, kC>(0, c) || !here(c)) continue;
      if constexpr (kChunks > 1) {
        T of[kChunks];
#pragma unroll
        for (int n = 0; n < kChunks; ++n) of[n] = reduced[n * kWide + c - begin];
        take(j, reduce_few(of, combine));
      } else {
        take(j, lane[c - begin]);
      }
    }
    Th::sync();
  }
}

/// Columns of a kR x kC tile, in the order of sim/ops/reduce.hpp: take(j, reduced) for every column
/// that this thread holds. combine(a, b) is the reduction's, as this build computes it.
template <class Th, int kR, int kC, class X, class T, class Combine, class Take>
__device__ __forceinline__ void reduce_down(const X& x, T identity, Combine combine, Take take) {
  if constexpr (kR == 1) {
#pragma unroll
    for (int j = 0; j < Th::template kColsHeld<kC>; ++j) take(j, combine(identity, x.at(0, j)));
  } else if constexpr (kR <= kReduceLanes && kColumnsExchanged<Th, kR, T> > 0) {
    reduce_few_rows<Th, kR, kC>(x, identity, combine, take);
  } else {
    reduce_in_rounds<Th, kR, kC>(x, identity, combine, take);
  }
}

/// How many columns of a tile of kR rows scan_down() has at a time; 0 where a thread has not the
/// registers for a column, or the exchange not the room.
template <class Th, int kR, int kC, class T>
constexpr int kColumnsScanned = [] {
  constexpr int kMostHeld = 64;
  constexpr int kSwizzled = 32;
  if (kR == 1 || kC == 1 || kR > kMostHeld || sizeof(T) != 4 || Th::kTeams) return 0;
  const int fit = cta::kExchangeBytes / 4 / kR / kSwizzled * kSwizzled;
  const int wide = (kC + kSwizzled - 1) / kSwizzled * kSwizzled;
  return fit < wide ? fit : wide;
}();

/// Columns of a kR x kC tile in the order of sim/ops/scan.hpp, each by a thread: take(i, j,
/// element) for every place that this thread holds.
template <class Th, int kR, int kC, class X, class Combine, class Take>
__device__ __forceinline__ void scan_down(const X& x, Combine combine, Take take) {
  using T = typename X::Element;
  constexpr int kWide = kColumnsScanned<Th, kR, kC, T>;
  static_assert(kWide > 0 && kWide % Th::kSpan == 0);
  constexpr int kPasses = std::bit_width(static_cast<unsigned>(kR - 1));
  T* const held = exchange<Th, T>();  // [row][column], neither rows nor columns in one bank
  const auto place = [](int r, int c) { return r * kWide + (c ^ (r & 3) << 3); };
  const auto each = [](int begin, auto use) {
#pragma unroll
    for (int i = 0; i < Th::template kRowsHeld<kR>; ++i) {
#pragma unroll
      for (int j = 0; j < Th::template kColsHeld<kC>; ++j) {
        if (Th::template col<kC>(j, 0) / kWide * kWide != begin) continue;
        const int r = Th::template row<kR>(i);
        const int c = Th::template col<kC>(j);
        if (inside<Th, kR, kC>(r, c)) use(i, j, r, c - begin);
      }
    }
  };
#pragma unroll
  for (int begin = 0; begin < kC; begin += kWide) {
    constexpr bool kInShared = requires { x.at_place(0, 0); };
    if constexpr (!kInShared) {
      each(begin, [&](int i, int j, int r, int c) { held[place(r, c)] = x.at(i, j); });
      Th::sync();
    }
    for (int c = static_cast<int>(threadIdx.x); c < kWide && begin + c < kC; c += Th::kThreads) {
      T column[kR];
#pragma unroll
      for (int r = 0; r < kR; ++r) {
        if constexpr (kInShared)
          column[r] = *x.at_place(r, begin + c);
        else
          column[r] = held[place(r, c)];
      }
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass) {
        const int apart = 1 << pass;
#pragma unroll
        for (int r = kR - 1; r > 0; --r) {
          if (r >= apart) column[r] = combine(column[r - apart], column[r]);
        }
      }
#pragma unroll
      for (int r = 0; r < kR; ++r) held[place(r, c)] = column[r];
    }
    Th::sync();
    each(begin, [&](int i, int j, int r, int c) { take(i, j, held[place(r, c)]); });
    Th::sync();
  }
}

}  // namespace tessera::cuda
