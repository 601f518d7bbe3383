// Matrix products by mma.sync, f32 sums of bf16 or f16 products, in the layout of cuda/warps.hpp.
//
// Operands are read from shared memory, by ldmatrix where 8 neighbours of every row lie in 16
// aligned bytes, else element by element. A left operand in registers is handed over there, as many
// columns at a time as fit; a right one as for the other layouts (cuda/exchange.hpp). Sums go over
// k in groups of 16, in increasing k; beyond an operand's edge there are zeros.
#pragma once

#include "cuda/mma_sync.hpp"
#include "cuda/simt_dot.hpp"

namespace tessera::cuda {

/// Whether every 8 neighbours of the tile, from a multiple of 8 on, are 16 aligned bytes.
template <class X>
constexpr bool in_eights() {
  if constexpr (kIsTransposed<X>)
    return in_eights<decltype(X::tile)>();
  else
    return X::Packed::together(16);
}
template <class X>
__device__ __forceinline__ SharedAt shared_place(const X& x, int r, int c) {
  return static_cast<SharedAt>(__cvta_generic_to_shared(place(x, r, c)));
}
/// Two neighbours along k (which: rows of b, columns of a), zeros beyond the edge.
template <class X>
__device__ __forceinline__ unsigned pair_of(const X& x, int r, int c, bool along_rows) {
  using T = typename X::Element;
  T two[2] = {};
  for (int e = 0; e < 2; ++e) {
    const int row = r + (along_rows ? e : 0);
    const int col = c + (along_rows ? 0 : e);
    if (row < kRowsOf<X> && col < kColsOf<X>) two[e] = *place(x, row, col);
  }
  unsigned bits;
  __builtin_memcpy(&bits, two, sizeof bits);
  return bits;
}

/// Rows `row` and on, 16 of them, of a, from column k on: 16 k's.
template <class A>
__device__ __forceinline__ void left_fragment(const A& a, int row, int k, unsigned (&to)[4]) {
  constexpr int kR = kRowsOf<A>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (in_eights<A>() && kR % 8 == 0 && kColsOf<A> % 16 == 0) {
    // Matrices 0 and 1 are of rows 0 to 7 and 8 to 15, 2 and 3 of the next 8 k's. Rows that there
    // are not are others', and nobody looks at what they give.
    const int upper = row + lane / 8 % 2 * 8;
    const int eight = kR % 16 != 0 && upper >= kR ? kR - 8 : upper;
    const int eight_k = k + lane / 16 * 8;
    if constexpr (kIsTransposed<A>)
      load_matrices<true>(to, shared_place(a.tile, eight_k + lane % 8, eight));
    else
      load_matrices<false>(to, shared_place(a, eight + lane % 8, eight_k));
  } else {
#pragma unroll
    for (int part = 0; part < 4; ++part)
      to[part] = pair_of(a, row + lane / 4 + part % 2 * 8, k + lane % 4 * 2 + part / 2 * 8, false);
  }
}
/// Columns `col` and on, 8 of them, of b, from row k on: 32 k's, or 16 of which there are no more.
template <class B>
__device__ __forceinline__ void right_fragments(const B& b, int k, int col, unsigned (&to)[4]) {
  constexpr int kK = kRowsOf<B>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (in_eights<B>() && kK % 16 == 0 && kColsOf<B> % 8 == 0) {
    const int wanted = k + lane / 8 * 8;
    const int eight_k = wanted < kK ? wanted : k;
    if constexpr (kIsTransposed<B>)
      load_matrices<false>(to, shared_place(b.tile, col + lane % 8, eight_k));
    else
      load_matrices<true>(to, shared_place(b, eight_k + lane % 8, col));
  } else {
#pragma unroll
    for (int part = 0; part < 4; ++part)
      to[part] = pair_of(b, k + lane % 4 * 2 + part * 8, col + lane / 4, true);
  }
}

/// sum += columns [kA, kA + kCount) of a by rows [kB, kB + kCount) of b, both in shared memory.
template <int kA, int kB, int kCount, class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void mma_shared(const A& a, const B& b,
                                           RegTile<Th, float, kR, kC>& sum) {
  using T = typename A::Element;
  using Tile = RegTile<Th, float, kR, kC>;
  constexpr bool kEight = Tile::kHeldRows == 1;
  constexpr int kBlocks = kEight ? 1 : Tile::kHeldRows / 2;
  constexpr int kGroups = Tile::kHeldCols / 2;
  constexpr bool kPartial = kC % Th::kSpan != 0;
  // Where a step is few instructions, several: what one waits for, another does.
  constexpr int kSteps = kBlocks * kGroups <= 4 ? 4 : 1;
#pragma unroll kSteps
  for (int k = 0; k < kCount; k += 32) {
    const bool both = kCount % 32 == 0 || k + 16 < kCount;
    unsigned left[2][kBlocks][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        if (half == 0 || both)
          left_fragment(a, 16 * Th::warpgroup() + Th::kHigh * block, kA + k + 16 * half,
                        left[half][block]);
      }
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int col = Th::kSpan * group + 8 * Th::warp();
      if (kPartial && col >= kC) continue;
      unsigned right[4];
      right_fragments(b, kB + k, col, right);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (half == 1 && !both) continue;
        const unsigned of_half[2] = {right[2 * half], right[2 * half + 1]};
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          // Of 8 rows the other 8 are nobody's.
          constexpr int kUpper = kEight ? 0 : 1;
          float* const lo = sum.v[2 * block] + 2 * group;
          float* const hi = sum.v[2 * block + kUpper] + 2 * group;
          float d[4] = {lo[0], lo[1], kEight ? 0.f : hi[0], kEight ? 0.f : hi[1]};
          mma_sync<T>(d, left[half][block], of_half);
          lo[0] = d[0];
          lo[1] = d[1];
          if constexpr (!kEight) {
            hi[0] = d[2];
            hi[1] = d[3];
          }
        }
      }
    }
  }
}

/// Columns [kBegin, kBegin + kCount) of a tile in registers, put where `to` has them.
template <class Th, int kBegin, int kCount, class A, class To>
__device__ __forceinline__ void hand_columns(const A& a, const To& to) {
  constexpr int kR = kRowsOf<A>;
  constexpr int kC = kColsOf<A>;
  if (!hands_on<Th, kR, kC>()) return;
#pragma unroll
  for (int i = 0; i < Th::template kRowsHeld<kR>; ++i) {
#pragma unroll
    for (int j = 0; j < Th::template kColsHeld<kC>; j += kC == 1 ? 1 : 2) {
      const int r = Th::template row<kR>(i);
      const int c = Th::template col<kC>(j);
      if (!inside<Th, kR, kC>(r, c) || c < kBegin || c >= kBegin + kCount) continue;
      if constexpr (kC % 2 == 0 && kBegin % 2 == 0 && kCount % 2 == 0) {
        using T = typename A::Element;
        write<2, To::Packed::together(2 * sizeof(T))>(to.at_place(r, c - kBegin),
                                                      {a.at(i, j), a.at(i, j + 1)});
      } else {
        *to.at_place(r, c - kBegin) = a.at(i, j);
        if (kC > 1 && c + 1 < kC && c + 1 < kBegin + kCount)
          *to.at_place(r, c + 1 - kBegin) = a.at(i, j + 1);
      }
    }
  }
}

/// multiply(left, Int<kA>, right, Int<kB>, Int<kCount>) for kCount columns of a, which are columns
/// kA and on of `left`, by as many rows of b, which are rows kB and on of `right`, until all are
/// multiplied. Both lie in shared memory: what is in registers is handed over, as much as fits.
template <class Th, int kBegin, class A, class B, class Multiply>
__device__ __forceinline__ void multiply_in_parts(const A& a, const B& b, Multiply multiply) {
  using T = typename A::Element;
  constexpr int kK = kColsOf<A>;
  constexpr int kR = kRowsOf<A>;
  constexpr int kC = kColsOf<B>;
  constexpr int kSize = static_cast<int>(sizeof(T));
  constexpr bool kHandsLeft = !kIsShared<A>;
  constexpr bool kHandsRight = !kIsShared<B>;
  if constexpr (!kHandsLeft && !kHandsRight) {
    multiply(a, Int<0>{}, b, Int<0>{}, Int<kK>{});
  } else if constexpr (kBegin < kK) {
    constexpr int kLeftFit = kHandsLeft ? cta::kHandBytes / (kR * kSize) / 16 * 16 : kK;
    constexpr int kRightFit = kHandsRight ? cta::kExchangeBytes / (kC * kSize) / 16 * 16 : kK;
    static_assert(kLeftFit > 0, "a left operand in registers has at most 128 rows");
    static_assert(kRightFit > 0, "a right operand in registers has rows of at most 1 KiB");
    constexpr int kFit = kLeftFit < kRightFit ? kLeftFit : kRightFit;
    constexpr int kCount = kFit < kK - kBegin ? kFit : kK - kBegin;
    const auto left = [&]() -> decltype(auto) {
      if constexpr (kHandsLeft) {
        static_assert(Th::kHand > 0, "runs of a sum side by side multiply what lies in blocks");
        const SharedTile<Th, T, kR, kCount> to{static_cast<T*>(pointer_to(Th::kHand)), Th::kHand};
        hand_columns<Th, kBegin, kCount>(a, to);
        return to;
      } else {
        return (a);
      }
    }();
    const auto right = [&]() -> decltype(auto) {
      if constexpr (kHandsRight) {
        const SharedTile<Th, T, kCount, kC> to{exchange<Th, T>(), Th::kExchange};
        hand_rows<Th, kBegin, kCount>(b, to);
        return to;
      } else {
        return (b);
      }
    }();
    Th::sync();
    multiply(left, Int < kHandsLeft ? 0 : kBegin > {}, right, Int < kHandsRight ? 0 : kBegin > {},
             Int<kCount>{});
    Th::sync();
    multiply_in_parts<Th, kBegin + kCount>(a, b, multiply);
  }
}

/// Rows kFrom and on of a right operand.
template <class B, int kFrom>
struct RowsFrom {
  using Element = typename B::Element;
  struct Packed {
    static constexpr bool together(int bytes) {
      if constexpr (kIsTransposed<B>)
        return false;
      else
        return B::Packed::together(bytes);
    }
  };
  const B& b;
  __device__ __forceinline__ auto* at_place(int r, int c) const { return place(b, r + kFrom, c); }
};

/// Of tensor cores where operands are of 16 bits, else of SIMT lanes.
template <bool kFresh, class Th, class A, class B, class Sum, int kR, int kC>
__device__ __forceinline__ void warps_multiply_add(const Product<A, B>& product,
                                                   RegTile<Th, Sum, kR, kC>& sum) {
  if constexpr (kFresh) Cta<Th>::assign(sum, Sum{});
  multiply_in_parts<Th, 0>(
      product.a, product.b,
      [&](const auto& left, auto k_left, const auto& right, auto k_right, auto count) {
        constexpr int kA = decltype(k_left)::value;
        constexpr int kB = decltype(k_right)::value;
        constexpr int kCount = decltype(count)::value;
        if constexpr (kIsHalf<typename A::Element>) {
          mma_shared<kA, kB, kCount>(left, right, sum);
        } else {
          using Right = std::remove_cvref_t<decltype(right)>;
          multiply_add_shared<Th, kA, kCount>(left, RowsFrom<Right, kB>{right}, sum);
        }
      });
}

}  // namespace tessera::cuda
