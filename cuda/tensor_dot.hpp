// Matrix products by tensor cores (wgmma), f32 sums of bf16 or f16 products.
//
// Each warpgroup multiplies its own 64 rows (of every Th::kHigh). A left operand lies in
// shared memory or in registers as accumulators are; a right one is read from shared memory, where
// threads hand over one that lies in registers. The order of the sums is the tensor cores'.
#pragma once

#include "cuda/tile.hpp"
#include "cuda/wgmma.hpp"

namespace tessera::cuda {

/// Columns kFrom and on of a k block's product, for the 64 rows whose held rows are lo and hi.
template <class T, int kC, int kMost, int kFrom, bool kTransA, bool kTransB, class A, class AtB>
__device__ __forceinline__ void multiply_columns(float* lo, float* hi, const A& a, AtB&& b_at,
                                                 bool add_to) {
  if constexpr (kFrom < kC) {
    constexpr int kLeft = kC - kFrom < kMost ? kC - kFrom : kMost;
    constexpr int kN = kLeft < 64 ? kLeft : kLeft / 64 * 64;
    const std::uint64_t b = b_at(kFrom);
    // Held columns come in pairs of every 8.
    if constexpr (std::is_same_v<A, std::uint64_t>)
      wgmma<T, kN, kTransA, kTransB>(lo + kFrom / 4, hi + kFrom / 4, a, b, add_to);
    else
      wgmma<T, kN, kTransB>(lo + kFrom / 4, hi + kFrom / 4, a, b, add_to);
    multiply_columns<T, kC, kMost, kFrom + kN, kTransA, kTransB>(lo, hi, a, b_at, add_to);
  }
}

/// The tile in shared memory that an operand is, or that is transposed to be it.
template <class X>
__device__ __forceinline__ const auto& tile_of(const X& x) {
  if constexpr (kIsTransposed<X>)
    return x.tile;
  else
    return x;
}
/// The descriptor of an operand `bytes` after where its tile begins, from `k` and row (of a) or
/// column (of b) `other` on, which are known when this is compiled. kAlongK: its rows in memory are
/// runs of k.
template <bool kAlongK, class Tile>
__device__ __forceinline__ std::uint64_t matrix_at(const Tile& tile, int bytes, int k, int other) {
  using Packed = typename Tile::Packed;
  static_assert(Packed::kPanelled, "columns of dot's operands in VMEM: a multiple of 128 bytes");
  constexpr int kPanelsApart = Packed::kPanelElems * Packed::kSize;
  const int row = kAlongK ? other : k;
  const int column = kAlongK ? k : other;
  const int ahead = column / Packed::kPanel * kPanelsApart + row * kPanelBytes +
                    column % Packed::kPanel * Packed::kSize;
  return matrix_descriptor(tile.address + static_cast<unsigned>(bytes), ahead, kAlongK,
                           kPanelsApart);
}
/// From the rows of one warpgroup to the next's, 64 further.
template <bool kAlongK, class Tile>
inline constexpr int kWarpgroupsApart =
    kAlongK ? 64 * kPanelBytes
            : 64 / Tile::Packed::kPanel* Tile::Packed::kPanelElems* Tile::Packed::kSize;

/// Columns [kBegin, kBegin + kCount) of a by the rows of b from its first on.
template <bool kFresh, int kBegin, int kCount, class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void multiply_some(const A& a, const B& b,
                                              RegTile<Th, float, kR, kC>& sum) {
  using T = typename A::Element;
  constexpr int kStep = 16;
  constexpr bool kTransB = !kIsTransposed<B>;
  const int warpgroup = Th::warpgroup();
  wgmma_fence();
#pragma unroll
  for (int block = 0; block < kR / Th::kHigh; ++block) {
    float* const lo = sum.v[2 * block];
    float* const hi = sum.v[2 * block + 1];
    const int row = Th::kHigh * block;
#pragma unroll
    for (int k = kBegin; k < kBegin + kCount; k += kStep) {
      const bool add_to = !kFresh || k > 0;
      const auto b_columns = [&](int c) {
        return matrix_at<!kTransB>(tile_of(b), 0, k - kBegin, c);
      };
      if constexpr (!kIsShared<A>) {
        unsigned fragment[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int i = 2 * block + part % 2;
          const int j = k / 4 + part / 2 * 2;
          const T two[2] = {a.at(i, j), a.at(i, j + 1)};
          __builtin_memcpy(&fragment[part], two, sizeof two);
        }
        multiply_columns<T, kC, Th::kMostColumns, 0, false, kTransB>(lo, hi, fragment, b_columns,
                                                                     add_to);
      } else {
        constexpr bool kTransA = kIsTransposed<A>;
        using Tile = std::remove_cvref_t<decltype(tile_of(a))>;
        const std::uint64_t ours =
            matrix_at<!kTransA>(tile_of(a), kWarpgroupsApart<!kTransA, Tile> * warpgroup, k, row);
        multiply_columns<T, kC, Th::kMostColumns, 0, kTransA, kTransB>(lo, hi, ours, b_columns,
                                                                       add_to);
      }
    }
  }
  wgmma_wait_all();
  pin(sum);
}

/// multiply(rows, Int<begin>{}, Int<count>{}) for columns [begin, begin + count) of a by as many
/// rows of b, which lies in registers, or is part of a block: as many at a time as are handed over.
template <int kBegin, class Th, class T, class B, class Multiply>
__device__ __forceinline__ void multiply_handed(const B& b, Multiply multiply) {
  constexpr int kK = kRowsOf<B>;
  constexpr int kC = kColsOf<B>;
  if constexpr (kBegin < kK) {
    constexpr int kFit = cta::kExchangeBytes / (kC * static_cast<int>(sizeof(T))) / 16 * 16;
    static_assert(kFit > 0, "a right operand in registers has at most 512 columns");
    constexpr int kCount = kFit < kK - kBegin ? kFit : kK - kBegin;
    const SharedTile<Th, T, kCount, kC> rows{exchange<Th, T>(), Th::kExchange};
    hand_rows<Th, kBegin, kCount>(b, rows);
    multiply(rows, Int<kBegin>{}, Int<kCount>{});
    Th::sync();
    multiply_handed<kBegin + kCount, Th, T>(b, multiply);
  }
}
/// The same for all of a product, at once if b is a whole block: what reads operands in panels.
template <class Th, class A, class B, int kR, int kC, class Multiply>
__device__ __forceinline__ void multiply_in_panels(const Product<A, B>& product,
                                                   const RegTile<Th, float, kR, kC>&,
                                                   Multiply multiply) {
  constexpr int kK = kColsOf<A>;
  static_assert(kR % Th::kHigh == 0, "rows of a product: 64 per warpgroup");
  static_assert(kK % 16 == 0 && kC % 32 == 0,
                "a product on tensor cores has k a multiple of 16 and columns a multiple of 32");
  static_assert(!kIsWindow<std::remove_cvref_t<decltype(tile_of(product.a))>>,
                "a product on tensor cores takes a whole block on the left: load() what is part of "
                "one");
  constexpr bool kHanded =
      !kIsShared<B> || kIsWindow<std::remove_cvref_t<decltype(tile_of(product.b))>>;
  if constexpr (kHanded)
    multiply_handed<0, Th, typename A::Element>(product.b, multiply);
  else
    multiply(product.b, Int<0>{}, Int<kK>{});
}

template <bool kFresh, class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void tensor_multiply_add(const Product<A, B>& product,
                                                    RegTile<Th, float, kR, kC>& sum) {
  multiply_in_panels(product, sum, [&](const auto& rows, auto begin, auto count) {
    multiply_some<kFresh, decltype(begin)::value, decltype(count)::value>(product.a, rows, sum);
  });
}

}  // namespace tessera::cuda
