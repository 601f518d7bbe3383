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
template <class Th, int kCount, int kR, class A>
__device__ __forceinline__ void left_values(const A& a, int i, int k, float (&to)[kCount]) {
  int r = Th::template row<kR>(i);
  if (!Th::template kWholeRows<kR>) r = r < kR ? r : kR - 1;
  if constexpr (side_by_side<kCount, A>(true)) {
    read_floats(place(a, r, k), to);
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = static_cast<float>(*place(a, r, k + e));
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

/// Adds kCount products to every element: of each held row's values of a, and those of b.
template <class Th, int kCount, int kR, int kC>
__device__ __forceinline__ void add_products(
    const float (&left)[RegTile<Th, float, kR, kC>::kHeldRows][kCount],
    const float (&right)[kCount][RegTile<Th, float, kR, kC>::kHeldCols],
    RegTile<Th, float, kR, kC>& sum) {
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
#pragma unroll
    for (int i = 0; i < sum.kHeldRows; ++i) {
#pragma unroll
      for (int j = 0; j < sum.kHeldCols; ++j)
        sum.v[i][j] = std::fma(left[i][e], right[e][j], sum.v[i][j]);
    }
  }
}

/// a in shared memory: every k, four at a time where they come so.
template <class Th, int kR, int kC, class A, class B>
__device__ __forceinline__ void multiply_add_shared(const A& a, const B& b,
                                                    RegTile<Th, float, kR, kC>& sum) {
  constexpr int kK = kColsOf<A>;
  constexpr int kStep = kK % 4 == 0 ? 4 : 1;
#pragma unroll 2
  for (int k = 0; k < kK; k += kStep) {
    float left[sum.kHeldRows][kStep];
    float right[kStep][sum.kHeldCols];
#pragma unroll
    for (int i = 0; i < sum.kHeldRows; ++i) left_values<Th, kStep, kR>(a, i, k, left[i]);
    right_values<Th, kStep, kC>(b, k, right);
    add_products<Th>(left, right, sum);
  }
}

/// a in registers: column k is held column `held` of lane `lane` of the half-warp.
template <class Th, int kR, int kC, class A, class B>
__device__ __forceinline__ void add_held_column(const A& a, int held, int lane, const B& b, int k,
                                                RegTile<Th, float, kR, kC>& sum) {
  float left[sum.kHeldRows][1];
  float right[1][sum.kHeldCols];
  const int from = (static_cast<int>(threadIdx.x) & kHalfWarp) | lane;
#pragma unroll
  for (int i = 0; i < sum.kHeldRows; ++i)
    left[i][0] = __shfl_sync(0xffffffffu, static_cast<float>(a.at(i, held)), from);
  right_values<Th, 1, kC>(b, k, right);
  add_products<Th>(left, right, sum);
}
template <class Th, int kR, int kC, class A, class B>
__device__ __forceinline__ void multiply_add_held(const A& a, const B& b,
                                                  RegTile<Th, float, kR, kC>& sum) {
  static_assert(!kIsTransposed<A>, "a transposed left operand lies in VMEM");
  constexpr int kK = kColsOf<A>;
  // Registers have no addresses, so held columns are known when this is compiled; lanes are not.
#pragma unroll
  for (int begin = 0; begin < kK; begin += kReduceLanes) {
    const int held = 2 * (begin / kReduceLanes);
    const int lanes = (kK - begin < kReduceLanes ? kK - begin : kReduceLanes) / 2;
#pragma unroll 1
    for (int lane = 0; lane < lanes; ++lane) {
      add_held_column<Th>(a, held, lane, b, begin + 2 * lane, sum);
      add_held_column<Th>(a, held + 1, lane, b, begin + 2 * lane + 1, sum);
    }
    if (kK % 2 != 0 && kK - begin < kReduceLanes)
      add_held_column<Th>(a, held, lanes, b, kK - 1, sum);
  }
}

template <class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void simt_multiply_add(const Product<A, B>& product,
                                                  RegTile<Th, float, kR, kC>& sum) {
  using T = typename A::Element;
  static_assert(kIsSmallFloat<T> || std::is_same_v<T, float>,
                "products of f32 and narrower floats");
  static_assert(Th::kWide == kHalfWarp, "rows of half a warp");
  if constexpr (kIsShared<A>)
    multiply_add_shared<Th>(product.a, product.b, sum);
  else
    multiply_add_held<Th>(product.a, product.b, sum);
}

}  // namespace tessera::cuda
