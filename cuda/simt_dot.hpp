// Matrix products by SIMT lanes: one fused multiply-add per k in increasing k, from the
// accumulator, the same bits as the interpreter's (sim/ops/dot.hpp).
//
// Operands in shared memory are read in place. A left operand in registers reaches the threads of
// its rows by shuffles: they are the half-warp that holds it.
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

/// `kCount` neighbours as floats.
template <int kCount, class T>
__device__ __forceinline__ void read_floats(const T* from, float (&to)[kCount]) {
  T some[kCount];
  read<kCount, true>(from, some);
#pragma unroll
  for (int e = 0; e < kCount; ++e) to[e] = static_cast<float>(some[e]);
}

/// Columns [k, k + kCount) of a left operand's held row i.
template <class Th, int kCount, int kR, int kK, class A>
__device__ __forceinline__ void left_values(const A& a, int i, int k, float (&to)[kCount]) {
  if constexpr (kIsShared<A>) {
    int r = Th::template row<kR>(i);
    if (!Th::template kWholeRows<kR>) r = r < kR ? r : kR - 1;
    if constexpr (side_by_side<kCount, A>(true)) {
      read_floats(place(a, r, k), to);
    } else {
#pragma unroll
      for (int e = 0; e < kCount; ++e) to[e] = static_cast<float>(*place(a, r, k + e));
    }
  } else {
    static_assert(!kIsTransposed<A>, "a transposed left operand lies in VMEM");
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      const int c = (k + e) % kReduceLanes;
      const int lane = (static_cast<int>(threadIdx.x) & kHalfWarp) | (c / 2);
      const int j = 2 * ((k + e) / kReduceLanes) + c % 2;
      to[e] = __shfl_sync(0xffffffffu, static_cast<float>(a.at(i, kK == 1 ? 0 : j)), lane);
    }
  }
}

/// Rows [k, k + kCount) of a right operand in shared memory, the columns that this thread holds.
template <class Th, int kCount, int kC, int kHeld, class B>
__device__ __forceinline__ void right_values(const B& b, int k, float (&to)[kCount][kHeld]) {
  const auto clamped = [](int c) { return Th::template kWholeCols<kC> || c < kC ? c : kC - 1; };
  if constexpr (kC > 1 && kCount > 1 && side_by_side<kCount, B>(false)) {
    // A transposed operand: its columns are rows in memory.
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      float along[kCount];
      read_floats(place(b, k, clamped(Th::template col<kC>(j))), along);
#pragma unroll
      for (int e = 0; e < kCount; ++e) to[e][j] = along[e];
    }
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      if constexpr (kC == 1) {
        to[e][0] = static_cast<float>(*place(b, k + e, 0));
      } else {
#pragma unroll
        for (int j = 0; j < kHeld; j += 2) {
          const int c = Th::template col<kC>(j);
          float two[2];
          if constexpr (side_by_side<2, B>(true) && Th::template kWholeCols<kC>) {
            read_floats(place(b, k + e, c), two);
          } else {
            two[0] = static_cast<float>(*place(b, k + e, clamped(c)));
            two[1] = static_cast<float>(*place(b, k + e, clamped(c + 1)));
          }
          to[e][j] = two[0];
          to[e][j + 1] = two[1];
        }
      }
    }
  }
}

/// Adds k in [first, first + kCount) to every element.
template <class Th, int kCount, int kR, int kC, int kK, class A, class ReadB>
__device__ __forceinline__ void multiply_add_some(const A& a, ReadB&& right, int first,
                                                  RegTile<Th, float, kR, kC>& sum) {
  using Sum = RegTile<Th, float, kR, kC>;
  float left[Sum::kHeldRows][kCount];
#pragma unroll
  for (int i = 0; i < Sum::kHeldRows; ++i) left_values<Th, kCount, kR, kK>(a, i, first, left[i]);
  float b[kCount][Sum::kHeldCols];
  right(first, b);
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
#pragma unroll
    for (int i = 0; i < Sum::kHeldRows; ++i) {
#pragma unroll
      for (int j = 0; j < Sum::kHeldCols; ++j)
        sum.v[i][j] = std::fma(left[i][e], b[e][j], sum.v[i][j]);
    }
  }
}

/// Every k, four at a time where they come so.
template <class Th, int kR, int kC, int kK, bool kFours, class A, class ReadB>
__device__ __forceinline__ void multiply_add_range(const A& a, ReadB&& right,
                                                   RegTile<Th, float, kR, kC>& sum) {
  constexpr int kStep = kFours ? 4 : 1;
  if constexpr (kIsShared<A>) {
#pragma unroll 2
    for (int k = 0; k < kK; k += kStep) multiply_add_some<Th, kStep, kR, kC, kK>(a, right, k, sum);
  } else {
    // Registers have no addresses: every k is known.
#pragma unroll
    for (int k = 0; k < kK; ++k) multiply_add_some<Th, 1, kR, kC, kK>(a, right, k, sum);
  }
}

template <class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void simt_multiply_add(const Product<A, B>& product,
                                                  RegTile<Th, float, kR, kC>& sum) {
  using T = typename A::Element;
  static_assert(kIsSmallFloat<T> || std::is_same_v<T, float>,
                "products of f32 and narrower floats");
  static_assert(Th::kWide == kHalfWarp, "rows of half a warp");
  constexpr int kK = kColsOf<A>;
  using Sum = RegTile<Th, float, kR, kC>;
  const auto right = [&]<int kCount>(int k, float(&b)[kCount][Sum::kHeldCols]) {
    right_values<Th, kCount, kC>(product.b, k, b);
  };
  multiply_add_range<Th, kR, kC, kK, kK % 4 == 0>(product.a, right, sum);
}

}  // namespace tessera::cuda
