// Matrix products by SIMT lanes: one fused multiply-add per k in increasing k, from the
// accumulator, the same bits as the interpreter's (sim/ops/dot.hpp).
//
// Operands in shared memory are read in place. A left operand in registers reaches the threads of
// its rows by shuffles: they are the half-warp that holds it. A right one in registers goes through
// shared memory, kHigh of its rows at a time.
#pragma once

#include "cuda/tile.hpp"

namespace tessera::cuda {

template <class X>
inline constexpr bool kIsShared = false;
template <class Th, class T, int kR, int kC, int kP>
inline constexpr bool kIsShared<SharedTile<Th, T, kR, kC, kP>> = true;
template <class X>
inline constexpr bool kIsShared<Transposed<X>> = kIsShared<X>;
template <class X>
inline constexpr bool kIsTransposed = false;
template <class X>
inline constexpr bool kIsTransposed<Transposed<X>> = true;

/// Where element (r, c) of an operand in shared memory is.
template <class Th, class T, int kR, int kC, int kP>
__device__ __forceinline__ const T* place(const SharedTile<Th, T, kR, kC, kP>& t, int r, int c) {
  return t.data + r * kP + c;
}
template <class Th, class T, int kR, int kC, int kP>
__device__ __forceinline__ const T* place(const Transposed<SharedTile<Th, T, kR, kC, kP>>& t, int r,
                                          int c) {
  return t.tile.data + c * kP + r;
}

/// `kCount` neighbours as floats, in one load where they are aligned.
template <int kCount, bool kAligned, class T>
__device__ __forceinline__ void read(const T* from, float (&to)[kCount]) {
  if constexpr (kAligned && kCount * sizeof(T) == 16) {
    const uint4 bits = *reinterpret_cast<const uint4*>(from);
    T held[kCount];
    __builtin_memcpy(held, &bits, sizeof bits);
#pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = static_cast<float>(held[e]);
  } else if constexpr (kAligned && kCount * sizeof(T) == 8) {
    const uint2 bits = *reinterpret_cast<const uint2*>(from);
    T held[kCount];
    __builtin_memcpy(held, &bits, sizeof bits);
#pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = static_cast<float>(held[e]);
  } else if constexpr (kAligned && kCount * sizeof(T) == 4) {
    const unsigned bits = *reinterpret_cast<const unsigned*>(from);
    T held[kCount];
    __builtin_memcpy(held, &bits, sizeof bits);
#pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = static_cast<float>(held[e]);
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = static_cast<float>(from[e]);
  }
}

/// Columns [k, k + kCount) of a left operand's held row i.
template <class Th, int kCount, int kR, int kK, class A>
__device__ __forceinline__ void left_values(const A& a, int i, int k, float (&to)[kCount]) {
  if constexpr (kIsShared<A>) {
    int r = Th::template row<kR>(i);
    if (!Th::template kWholeRows<kR>) r = r < kR ? r : kR - 1;
    if constexpr (kIsTransposed<A>) {
#pragma unroll
      for (int e = 0; e < kCount; ++e) to[e] = static_cast<float>(*place(a, r, k + e));
    } else {
      read<kCount, kCount * sizeof(typename A::Element) <= 16>(place(a, r, k), to);
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

/// Adds k in [first, first + kCount) to every element.
template <class Th, int kCount, int kR, int kC, int kK, class A, class ReadB>
__device__ __forceinline__ void multiply_add_some(const A& a, ReadB&& right, int first,
                                                  RegTile<Th, float, kR, kC>& sum) {
  using Sum = RegTile<Th, float, kR, kC>;
  float left[Sum::kHeldRows][kCount];
#pragma unroll
  for (int i = 0; i < Sum::kHeldRows; ++i) left_values<Th, kCount, kR, kK>(a, i, first, left[i]);
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    float b[Sum::kHeldCols];
    right(first + e, b);
#pragma unroll
    for (int i = 0; i < Sum::kHeldRows; ++i) {
#pragma unroll
      for (int j = 0; j < Sum::kHeldCols; ++j)
        sum.v[i][j] = std::fma(left[i][e], b[j], sum.v[i][j]);
    }
  }
}

/// k in [first, last), four at a time where they come so.
template <class Th, int kR, int kC, int kK, bool kFours, class A, class ReadB>
__device__ __forceinline__ void multiply_add_range(const A& a, ReadB&& right, int first, int last,
                                                   RegTile<Th, float, kR, kC>& sum) {
  constexpr int kStep = kFours ? 4 : 1;
  if constexpr (kIsShared<A>) {
#pragma unroll 2
    for (int k = first; k < last; k += kStep)
      multiply_add_some<Th, kStep, kR, kC, kK>(a, right, k, sum);
  } else {
    // Registers have no addresses: every k is known.
#pragma unroll
    for (int k = 0; k < kK; ++k) {
      if (k >= first && k < last) multiply_add_some<Th, 1, kR, kC, kK>(a, right, k, sum);
    }
  }
}

template <class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void multiply_add(const Product<A, B>& product,
                                             RegTile<Th, float, kR, kC>& sum) {
  using T = typename A::Element;
  static_assert(kIsSmallFloat<T> || std::is_same_v<T, float>,
                "products of f32 and narrower floats");
  static_assert(kRowsOf<A> == kR && kColsOf<B> == kC, "extents differ");
  static_assert(Th::kWide == kHalfWarp, "rows of half a warp");
  constexpr int kK = kColsOf<A>;
  using Sum = RegTile<Th, float, kR, kC>;
  if constexpr (kIsShared<B>) {
    const auto right = [&](int k, float(&b)[Sum::kHeldCols]) {
      if constexpr (kC == 1) {
        b[0] = static_cast<float>(*place(product.b, k, 0));
      } else {
#pragma unroll
        for (int j = 0; j < Sum::kHeldCols; j += 2) {
          const int c = Th::template col<kC>(j);
          if constexpr (!kIsTransposed<B> && Th::template kWholeCols<kC>) {
            float two[2];
            read<2, true>(place(product.b, k, c), two);
            b[j] = two[0];
            b[j + 1] = two[1];
          } else {
            b[j] = static_cast<float>(*place(product.b, k, c < kC ? c : kC - 1));
            b[j + 1] = static_cast<float>(*place(product.b, k, c + 1 < kC ? c + 1 : kC - 1));
          }
        }
      }
    };
    multiply_add_range<Th, kR, kC, kK, kK % 4 == 0>(product.a, right, 0, kK, sum);
  } else {
    static_assert(!kIsTransposed<B>, "a transposed right operand lies in VMEM");
    constexpr int kHigh = Th::kHigh;
    __shared__ T some[kHigh][kC];
#pragma unroll
    for (int chunk = 0; chunk < Th::template kRowsHeld<kK>; ++chunk) {
      __syncthreads();
#pragma unroll
      for (int j = 0; j < Th::template kColsHeld<kC>; ++j) {
        const int c = Th::template col<kC>(j);
        if (kC == 1 ? Th::x() == 0 : Th::template inside<1, kC>(0, c))
          some[kK == 1 ? 0 : Th::y()][c] = product.b.at(chunk, j);
      }
      __syncthreads();
      const int first = kK == 1 ? 0 : chunk * kHigh;
      const auto right = [&](int k, float(&b)[Sum::kHeldCols]) {
#pragma unroll
        for (int j = 0; j < Sum::kHeldCols; ++j) {
          const int c = Th::template col<kC>(j);
          b[j] = static_cast<float>(some[k - first][Th::template inside<1, kC>(0, c) ? c : 0]);
        }
      };
      multiply_add_range<Th, kR, kC, kK, false>(product.a, right, first,
                                                first + kHigh < kK ? first + kHigh : kK, sum);
    }
  }
}

}  // namespace tessera::cuda
