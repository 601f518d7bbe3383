// Blocks between HBM and the CTA: where a block of an array lies, its fetch into shared memory
// with cp.async, and the stores of a tile into it.
//
// A fetch is complete when its group is (cp.async.wait_group) and the CTA has met. Sixteen bytes at
// a time where array and block allow, else element by element; the out-of-bounds part is the
// operand's pad.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "cuda/tile.hpp"
#include "sim/body/spec.hpp"

namespace tessera::cuda {

/// Elements from one row of a block in shared memory to the next: 32 bytes further than the row
/// where rows are whole vectors, so that a column does not lie in one bank. (16 bytes would do for
/// that, but then every other row comes out of L2 twice, a sector for each of its halves: measured,
/// 1.5 times the bytes.)
template <class T, int kC>
inline constexpr int kPitchOf = kC * sizeof(T) % 16 == 0 ? kC + 32 / static_cast<int>(sizeof(T))
                                                         : kC;

/// The rectangle of an array that a block is: row r of the block as the body sees it.
template <class... E>
struct Region {
  static constexpr int kRank = sizeof...(E);
  static constexpr int kLast = detail::last_kept<E...>();

  int extent[kRank];  ///< of the block, 1 where squeezed
  long long start[kRank];
  long long shape[kRank];
  long long stride[kRank];
  long long offset = 0;  ///< of the block's first element
  bool whole = true;     ///< inside the array

  __device__ __forceinline__ Region(const BlockDims<E...>& block, const Shape& array,
                                    const std::int64_t* index) {
    fill_extents(block, std::make_index_sequence<kRank>{});
    long long step = 1;
#pragma unroll
    for (int d = kRank - 1; d >= 0; --d) {
      shape[d] = array[d];
      stride[d] = step;
      step *= shape[d];
      start[d] = index[d] * extent[d];
      offset += start[d] * stride[d];
      whole = whole && start[d] + extent[d] <= shape[d];
    }
  }
  /// Offset in the array of row r, or -1 if it lies outside.
  __device__ __forceinline__ long long row(int r) const {
    long long at = offset;
#pragma unroll
    for (int d = kRank - 1; d >= 0; --d) {
      if (d == kLast || squeezed(d)) continue;
      int digit = r;
      if (has_kept_before(d)) {
        digit = r % extent[d];
        r /= extent[d];
      }
      if (start[d] + digit >= shape[d]) return -1;
      at += digit * stride[d];
    }
    return at;
  }
  /// Columns of the block that lie in the array.
  __device__ __forceinline__ int columns() const {
    if constexpr (kLast < 0) {
      return 1;
    } else {
      const long long left = shape[kLast] - start[kLast];
      return static_cast<int>(left < extent[kLast] ? left : extent[kLast]);
    }
  }

 private:
  template <std::size_t... I>
  __device__ __forceinline__ void fill_extents(const BlockDims<E...>& block,
                                               std::index_sequence<I...>) {
    ((extent[I] = detail::block_extent(std::get<I>(block.extents))), ...);
  }
  static constexpr bool squeezed(int d) {
    const bool is[kRank] = {std::is_same_v<E, Squeezed>...};
    return is[d];
  }
  static constexpr bool has_kept_before(int d) {
    for (int b = 0; b < d; ++b) {
      if (!squeezed(b)) return true;
    }
    return false;
  }
};
template <class... E>
__device__ __forceinline__ auto region(const BlockDims<E...>& block, const Shape& array,
                                       const std::int64_t* index) {
  return Region<E...>(block, array, index);
}

__device__ __forceinline__ bool aligned16(const void* p) {
  return (reinterpret_cast<unsigned long long>(p) & 15) == 0;
}

/// One element from HBM to shared memory: asynchronously where the hardware can.
template <class T>
__device__ __forceinline__ void copy_element(T* to, const T* from) {
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8)
    __pipeline_memcpy_async(to, from, sizeof(T));
  else
    *to = *from;
}

/// Starts the fetch of kR x kC elements: row(r) is where row r begins, null outside; `columns` of
/// each exist; the rest becomes `pad`.
template <class Th, int kR, int kC, int kPitch, class T, class Row>
__device__ __forceinline__ void fetch_rows(T* to, Row&& row, int columns, T pad) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  if constexpr (kC % kVector == 0 && kPitch % kVector == 0) {
    constexpr int kChunks = kC / kVector;
#pragma unroll 4
    for (int n = static_cast<int>(threadIdx.x); n < kR * kChunks; n += Th::kThreads) {
      const int r = n / kChunks;
      const int c = n % kChunks * kVector;
      const T* const from = row(r);
      T* const there = to + r * kPitch + c;
      if (from != nullptr && c + kVector <= columns && aligned16(from + c)) {
        __pipeline_memcpy_async(there, from + c, 16);
        continue;
      }
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (from != nullptr && c + e < columns)
          copy_element(there + e, from + c + e);
        else
          there[e] = pad;
      }
    }
  } else {
    for (int n = static_cast<int>(threadIdx.x); n < kR * kC; n += Th::kThreads) {
      const int r = n / kC;
      const int c = n % kC;
      const T* const from = row(r);
      if (from != nullptr && c < columns)
        copy_element(to + r * kPitch + c, from + c);
      else
        to[r * kPitch + c] = pad;
    }
  }
}

/// Stores a tile's elements that lie in the array and that `keep` wants.
template <class Th, class T, class R, class X, class Keep>
__device__ __forceinline__ void store_region(T* array, const R& where, const X& x, Keep&& keep) {
  constexpr int kR = kRowsOf<X>;
  constexpr int kC = kColsOf<X>;
  static_assert(std::is_same_v<typename X::Element, T>, "element types differ: cast<T>() first");
  if (kR == 1 && Th::y() != 0) return;
  if (kC == 1 && Th::x() != 0) return;
  const int columns = where.columns();
#pragma unroll
  for (int i = 0; i < Th::template kRowsHeld<kR>; ++i) {
    const int r = Th::template row<kR>(i);
    if (!Th::template kWholeRows<kR> && r >= kR) continue;
    const long long begin = where.row(r);
    if (begin < 0) continue;
    if constexpr (kC == 1) {
      if (keep(r, 0)) array[begin] = x.at(i, 0);
    } else {
#pragma unroll
      for (int j = 0; j < Th::template kColsHeld<kC>; j += 2) {
        const int c = Th::template col<kC>(j);
        T two[2] = {x.at(i, j), x.at(i, j + 1)};
        T* const to = array + begin + c;
        const bool both = c + 1 < columns && keep(r, c) && keep(r, c + 1);
        if (both && (reinterpret_cast<unsigned long long>(to) & (2 * sizeof(T) - 1)) == 0) {
          if constexpr (sizeof(T) == 4) {
            uint2 bits;
            __builtin_memcpy(&bits, two, sizeof bits);
            *reinterpret_cast<uint2*>(to) = bits;
            continue;
          } else if constexpr (sizeof(T) == 2) {
            unsigned bits;
            __builtin_memcpy(&bits, two, sizeof bits);
            *reinterpret_cast<unsigned*>(to) = bits;
            continue;
          }
        }
        if (c < columns && keep(r, c)) to[0] = two[0];
        if (c + 1 < columns && keep(r, c + 1)) to[1] = two[1];
      }
    }
  }
}

}  // namespace tessera::cuda
