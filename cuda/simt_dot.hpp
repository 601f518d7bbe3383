// Matrix products by SIMT lanes: one fused multiply-add per k in increasing k, from the
// accumulator, the same bits as the interpreter's (sim/ops/dot.hpp). Of floats in f32, of 8-bit
// integers in i32.
//
// Operands in shared memory are read in place. A left operand in registers reaches the threads of
// its rows by shuffles: they hold it among themselves. A right one is handed over through shared
// memory, as many rows at a time as fit there.
#pragma once

#include "cuda/tile.hpp"

namespace tessera::cuda {

/// Where element (r, c) of an operand in shared memory is.
template <class A>
__device__ __forceinline__ auto place(const A& a, int r, int c) {
  if constexpr (kIsTransposed<A>)
    return a.tile.at_place(c, r);
  else
    return a.at_place(r, c);
}
/// Whether `kCount` elements from a multiple of them are read at once: along k, or along columns.
template <int kCount, class A>
constexpr bool side_by_side(bool along_columns) {
  if constexpr (kIsTransposed<A>)
    return !along_columns &&
           decltype(A::tile)::Packed::together(kCount * sizeof(typename A::Element));
  else
    return along_columns && A::Packed::together(kCount * sizeof(typename A::Element));
}

/// `kCount` neighbours, in the type of sums.
template <int kCount, class T, class Sum>
__device__ __forceinline__ void read_wide(const T* from, Sum (&to)[kCount]) {
  T some[kCount];
  read<kCount, true>(from, some);
#pragma unroll
  for (int e = 0; e < kCount; ++e) to[e] = static_cast<Sum>(some[e]);
}

/// Columns [k, k + kCount) of a left operand's held row i.
template <class Th, int kCount, int kR, class A, class Sum>
__device__ __forceinline__ void left_values(const A& a, int i, int k, Sum (&to)[kCount]) {
  int r = Th::template row<kR>(i);
  if (!Th::template kWholeRows<kR>) r = r < kR ? r : kR - 1;
  if constexpr (side_by_side<kCount, A>(true)) {
    read_wide(place(a, r, k), to);
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = static_cast<Sum>(*place(a, r, k + e));
  }
}

/// Rows [k, k + kCount) of a right operand in shared memory, the columns that this thread holds.
template <class Th, int kCount, int kC, int kHeld, class B, class Sum>
__device__ __forceinline__ void right_values(const B& b, int k, Sum (&to)[kCount][kHeld]) {
  const auto clamped = [](int c) { return Th::template kWholeCols<kC> || c < kC ? c : kC - 1; };
  if constexpr (kC > 1 && kCount > 1 && side_by_side<kCount, B>(false)) {
    // A transposed operand: its columns are rows in memory.
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      Sum along[kCount];
      read_wide(place(b, k, clamped(Th::template col<kC>(j))), along);
#pragma unroll
      for (int e = 0; e < kCount; ++e) to[e][j] = along[e];
    }
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      if constexpr (kC == 1) {
        to[e][0] = static_cast<Sum>(*place(b, k + e, 0));
      } else {
#pragma unroll
        for (int j = 0; j < kHeld; j += 2) {
          const int c = Th::template col<kC>(j);
          Sum two[2];
          if constexpr (side_by_side<2, B>(true) && Th::template kWholeCols<kC>) {
            read_wide(place(b, k + e, c), two);
          } else {
            two[0] = static_cast<Sum>(*place(b, k + e, clamped(c)));
            two[1] = static_cast<Sum>(*place(b, k + e, clamped(c + 1)));
          }
          to[e][j] = two[0];
          to[e][j + 1] = two[1];
        }
      }
    }
  }
}

/// Adds kCount products to every element: of each held row's values of a, and those of b.
template <class Th, int kCount, class Sum, int kR, int kC>
__device__ __forceinline__ void add_products(
    const Sum (&left)[RegTile<Th, Sum, kR, kC>::kHeldRows][kCount],
    const Sum (&right)[kCount][RegTile<Th, Sum, kR, kC>::kHeldCols],
    RegTile<Th, Sum, kR, kC>& sum) {
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
#pragma unroll
    for (int i = 0; i < sum.kHeldRows; ++i) {
#pragma unroll
      for (int j = 0; j < sum.kHeldCols; ++j)
        sum.v[i][j] = Dot::apply(left[i][e], right[e][j], sum.v[i][j]);
    }
  }
}

/// a in shared memory: its columns [kBegin, kBegin + kCount), four at a time where they come so, by
/// the rows of b from its first on.
template <class Th, int kBegin, int kCount, class Sum, int kR, int kC, class A, class B>
__device__ __forceinline__ void multiply_add_shared(const A& a, const B& b,
                                                    RegTile<Th, Sum, kR, kC>& sum) {
  constexpr int kStep = kCount % 4 == 0 ? 4 : 1;
#pragma unroll 2
  for (int k = 0; k < kCount; k += kStep) {
    Sum left[sum.kHeldRows][kStep];
    Sum right[kStep][sum.kHeldCols];
#pragma unroll
    for (int i = 0; i < sum.kHeldRows; ++i) left_values<Th, kStep, kR>(a, i, kBegin + k, left[i]);
    right_values<Th, kStep, kC>(b, k, right);
    add_products<Th>(left, right, sum);
  }
}

/// a in registers: one column, which is held column `held` of lane `lane` of the threads of a row,
/// by row k of b.
template <class Th, class Sum, int kR, int kC, class A, class B>
__device__ __forceinline__ void add_held_column(const A& a, int held, int lane, const B& b, int k,
                                                RegTile<Th, Sum, kR, kC>& sum) {
  Sum left[sum.kHeldRows][1];
  Sum right[1][sum.kHeldCols];
  const int from = (static_cast<int>(threadIdx.x) % 32 / Th::kWide * Th::kWide) | lane;
#pragma unroll
  for (int i = 0; i < sum.kHeldRows; ++i)
    left[i][0] = __shfl_sync(0xffffffffu, static_cast<Sum>(a.at(i, held)), from);
  right_values<Th, 1, kC>(b, k, right);
  add_products<Th>(left, right, sum);
}
/// a in registers: its columns [kBegin, kBegin + kCount) by the rows of b from its first on.
/// Registers have no addresses, so held columns are known when this is compiled; lanes are not.
template <class Th, int kBegin, int kCount, class Sum, int kR, int kC, class A, class B>
__device__ __forceinline__ void multiply_add_held(const A& a, const B& b,
                                                  RegTile<Th, Sum, kR, kC>& sum) {
  static_assert(!Th::kTeams,
                "where blocks have the same rows and more than 512 columns, the left operand of a "
                "product lies in VMEM");
  constexpr int kApart = Th::kApart;
  constexpr int kEnd = kBegin + kCount;
#pragma unroll
  for (int group = kBegin / kApart * kApart; group < kEnd; group += kApart) {
    const int held = 2 * (group / kApart);
    const int first = (kBegin > group ? kBegin - group : 0) / 2;
    const int left = kEnd - group < kApart ? kEnd - group : kApart;
#pragma unroll 1
    for (int lane = first; lane < left / 2; ++lane) {
      const int k = group + 2 * lane - kBegin;
      add_held_column<Th>(a, held, lane, b, k, sum);
      add_held_column<Th>(a, held + 1, lane, b, k + 1, sum);
    }
    if (left % 2 != 0) add_held_column<Th>(a, held, left / 2, b, kCount - 1, sum);
  }
}
template <class Th, int kBegin, int kCount, class Sum, int kR, int kC, class A, class B>
__device__ __forceinline__ void multiply_add_some(const A& a, const B& b,
                                                  RegTile<Th, Sum, kR, kC>& sum) {
  if constexpr (kIsShared<A>)
    multiply_add_shared<Th, kBegin, kCount>(a, b, sum);
  else
    multiply_add_held<Th, kBegin, kCount>(a, b, sum);
}

/// Rows of a right operand in shared memory, one after the other.
template <class T, int kRows, int kCols>
struct HandedRows {
  using Element = T;
  struct Packed {
    static constexpr bool together(int bytes) {
      return bytes <= 16 && kCols * static_cast<int>(sizeof(T)) % bytes == 0;
    }
  };
  T* data;
  __device__ __forceinline__ T* at_place(int r, int c) const { return data + r * kCols + c; }
};

/// Columns from kBegin on of a by the rows of b, which lies in registers.
template <class Th, int kBegin, class Sum, int kR, int kC, class A, class B>
__device__ __forceinline__ void multiply_add_handed(const A& a, const B& b,
                                                    RegTile<Th, Sum, kR, kC>& sum) {
  using T = typename B::Element;
  constexpr int kK = kRowsOf<B>;
  if constexpr (kBegin < kK) {
    constexpr int kFit = cta::kExchangeBytes / (kC * static_cast<int>(sizeof(T))) / 2 * 2;
    static_assert(kFit > 0, "two rows of a right operand in registers have at most 16 KiB");
    constexpr int kCount = kFit < kK - kBegin ? kFit : kK - kBegin;
    const HandedRows<T, kCount, kC> rows{exchange<Th, T>()};
    hand_rows<Th, kBegin, kCount>(b, rows);
    multiply_add_some<Th, kBegin, kCount>(a, rows, sum);
    Th::sync();
    multiply_add_handed<Th, kBegin + kCount>(a, b, sum);
  }
}

template <class Th, class A, class B, class Sum, int kR, int kC>
__device__ __forceinline__ void simt_multiply_add(const Product<A, B>& product,
                                                  RegTile<Th, Sum, kR, kC>& sum) {
  if constexpr (kIsShared<B>)
    multiply_add_some<Th, 0, kColsOf<A>>(product.a, product.b, sum);
  else
    multiply_add_handed<Th, 0>(product.a, product.b, sum);
}

}  // namespace tessera::cuda
