// Where a block lies in its array, and the stores of a tile into it.
#pragma once

#include "cuda/staged_store.hpp"
#include "sim/body/spec.hpp"

namespace tessera::cuda {

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

  /// Rows are `pitch` elements apart, if it is given: those of a copy (sim/body/spread.hpp).
  __device__ __forceinline__ Region(const BlockDims<E...>& block, const Shape& array,
                                    const std::int64_t* index, long long pitch = 0) {
    fill_extents(block, std::make_index_sequence<kRank>{});
    long long step = 1;
#pragma unroll
    for (int d = kRank - 1; d >= 0; --d) {
      shape[d] = array[d];
      stride[d] = step;
      step *= d == kRank - 1 && pitch > 0 ? pitch : shape[d];
      start[d] = index[d] * extent[d];
      offset += start[d] * stride[d];
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
  /// True if all of the block lies in the array.
  __device__ __forceinline__ bool whole() const {
    bool is = true;
#pragma unroll
    for (int d = 0; d < kRank; ++d) is = is && start[d] + extent[d] <= shape[d];
    return is;
  }
  /// True if every row of the block begins at a multiple of `bytes`.
  template <class T>
  __device__ __forceinline__ bool rows_aligned(const T* array, int bytes) const {
    if constexpr (kLast < 0) {
      return false;
    } else {
      const auto at = reinterpret_cast<unsigned long long>(array + offset);
      bool aligned = at % static_cast<unsigned>(bytes) == 0 && stride[kLast] == 1;
#pragma unroll
      for (int d = 0; d < kLast; ++d)
        aligned = aligned && stride[d] * static_cast<long long>(sizeof(T)) % bytes == 0;
      return aligned;
    }
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

  /// Rows of a block with one dim of them or none, from one to the next, and how many there are in
  /// the array.
  static constexpr int kRowDims = (0 + ... + (std::is_same_v<E, Squeezed> ? 0 : 1)) - 1;
  __device__ __forceinline__ long long row_stride() const {
    return kRowDims == 1 ? stride[row_dim()] : 0;
  }
  __device__ __forceinline__ long long rows_left() const {
    return kRowDims == 1 ? shape[row_dim()] - start[row_dim()] : 1;
  }

 private:
  static constexpr int row_dim() {
    int found = 0;
    for (int d = 0; d < kLast; ++d) found = squeezed(d) ? found : d;
    return found;
  }
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
                                       const std::int64_t* index, long long pitch = 0) {
  return Region<E...>(block, array, index, pitch);
}

/// Which elements of a tile are stored: all, those of a predicate of row and column, or those of a
/// mask held as the tile is.
struct KeepAll {
  static constexpr bool kByPlace = true;
  __device__ __forceinline__ bool operator()(int, int, int, int) const { return true; }
};
template <class F>
struct KeepAt {
  static constexpr bool kByPlace = true;
  F keep;
  __device__ __forceinline__ bool operator()(int r, int c, int, int) const { return keep(r, c); }
};
template <class Mask>
struct KeepHeld {
  static constexpr bool kByPlace = false;
  const Mask& mask;
  __device__ __forceinline__ bool operator()(int, int, int i, int j) const { return mask.at(i, j); }
};

/// Stores held row i of a tile of accumulators' layout, 16 bytes at a time: `to` is row r, whole.
template <class Th, class T, class X, class Keep>
__device__ __forceinline__ void store_eights(T* to, int r, int i, const X& x, Keep keep) {
#pragma unroll
  for (int first = 0; first < kColsOf<X>; first += 32) {
    unsigned pair[4];
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const int j = (first + 8 * g) / 4;
      const T two[2] = {x.at(i, j), x.at(i, j + 1)};
      __builtin_memcpy(&pair[g], two, sizeof two);
    }
    Th::gather_eight(pair);
    const int c = first + 8 * Th::x();
    bool all = true;
#pragma unroll
    for (int e = 0; e < 8; ++e) all = all && keep(r, c + e, 0, 0);
    if (all) {
      *reinterpret_cast<uint4*>(to + c) = make_uint4(pair[0], pair[1], pair[2], pair[3]);
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        T two[2];
        __builtin_memcpy(two, &pair[e / 2], sizeof two);
        if (keep(r, c + e, 0, 0)) to[c + e] = two[e % 2];
      }
    }
  }
}

/// Stores a tile's elements that lie in the array and that `keep(row, column, i, j)` wants, i and j
/// being the places that this thread holds them in.
template <class Th, class T, class R, class X, class Keep>
__device__ __forceinline__ void store_region(T* array, const R& where, const X& x, Keep keep) {
  constexpr int kR = kRowsOf<X>;
  constexpr int kC = kColsOf<X>;
  static_assert(std::is_same_v<typename X::Element, T>, "element types differ: cast<T>() first");
  if constexpr (is_staged<Th, T, kR, kC>() && Keep::kByPlace) {
    store_staged<Th>(array, where, x, keep);
    return;
  }
  if (kR == 1 && !Th::first_of_column()) return;
  if (kC == 1 && !Th::first_of_row()) return;
  const int columns = where.columns();
  if constexpr (kIsPacked<T>) {
#pragma unroll
    for (int i = 0; i < Th::template kRowsHeld<kR>; ++i) {
      const int r = Th::template row<kR>(i);
      const long long begin = r < kR ? where.row(r) : -1;
#pragma unroll
      for (int j = 0; j < Th::template kColsHeld<kC>; ++j) {
        const int c = Th::template col<kC>(j);
        if (begin >= 0 && c < columns && keep(r, c, i, j))
          store_packed(array, begin + c, x.at(i, j));
      }
    }
    return;
  }
  // All columns inside, rows where pairs begin: no test of an element's place.
  constexpr int kPair = 2 * static_cast<int>(sizeof(T));
  const bool plain =
      Th::template kWholeCols<kC> && columns == kC && where.rows_aligned(array, kPair);
  constexpr bool kEights = Th::kWgmma && sizeof(T) == 2 && kC % 32 == 0 && kR > 1 && Keep::kByPlace;
  const bool eights = kEights && columns == kC && where.rows_aligned(array, 16);
  const int first_column = Th::first_here();
#pragma unroll
  for (int i = 0; i < Th::template kRowsHeld<kR>; ++i) {
    const int r = Th::template row<kR>(i);
    if (!Th::template kWholeRows<kR> && r >= kR) continue;
    const long long begin = where.row(r);
    if constexpr (kEights) {
      // The four threads of a row go the same way.
      if (eights) {
        const bool there = begin >= 0;
        store_eights<Th>(array + (there ? begin : 0), r, i, x,
                         [&](int row, int c, int, int) { return there && keep(row, c, 0, 0); });
        continue;
      }
    }
    if (begin < 0) continue;
    T* const to = array + begin;
    if constexpr (kC == 1) {
      if (keep(r, 0, i, 0)) *to = x.at(i, 0);
    } else if (plain) {
      // Other places are that many elements away: an address, not one for every pair.
      T* const mine = to + first_column;
#pragma unroll
      for (int j = 0; j < Th::template kColsHeld<kC>; j += 2) {
        const int c = Th::template col<kC>(j, first_column);
        T* const pair = mine + Th::template col<kC>(j, 0);
        const bool first = keep(r, c, i, j);
        const bool second = keep(r, c + 1, i, j + 1);
        if (first && second) {
          write<2, true>(pair, {x.at(i, j), x.at(i, j + 1)});
        } else {
          if (first) pair[0] = x.at(i, j);
          if (second) pair[1] = x.at(i, j + 1);
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < Th::template kColsHeld<kC>; ++j) {
        const int c = Th::template col<kC>(j, first_column);
        if (c < columns && keep(r, c, i, j)) to[c] = x.at(i, j);
      }
    }
  }
}

}  // namespace tessera::cuda
