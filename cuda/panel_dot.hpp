// Matrix products by mma.sync where the Hopper build has wgmma: the same layout of accumulators
// (cuda/warpgroups.hpp), the same operands in 128-byte swizzled panels (cuda/packing.hpp), sums in
// the same order: k in groups of 16, upwards.
//
// Each warp multiplies its 16 rows of every Th::kHigh. Operands come from shared memory by
// ldmatrix: where a lane reads is computed once for a tile, the rest are constants, as a swizzle
// exchanges chunks by bits that a multiple of eight rows does not have. A left operand in registers
// is an accumulator's halves as they are. What the products after the next ones read is on its way
// while the tensor cores have these.
#pragma once

#include "cuda/mma_sync.hpp"
#include "cuda/tensor_dot.hpp"

namespace tessera::cuda {

/// Where a lane's rows of 8 x 8 matrices of a tile lie: those from its first row and column on, and
/// from others by constants.
template <class Tile>
struct MatrixRows {
  using Packed = typename Tile::Packed;
  static_assert(Packed::kPanelled, "columns of dot's operands in VMEM: a multiple of 128 bytes");
  SharedAt lane;

  /// Lane's row, from the tile's first, and 16-byte chunk of that row.
  __device__ __forceinline__ MatrixRows(const Tile& tile, int row, int chunk)
      : lane(tile.address + static_cast<unsigned>(row * kPanelBytes) +
             static_cast<unsigned>(chunk / 8 * (Packed::kPanelElems * Packed::kSize)) +
             static_cast<unsigned>(((chunk ^ row) & 7) * 16)) {}
  /// `rows` (of 8) and `columns` (of 16, in chunks that the lane's first has not) further.
  __device__ __forceinline__ SharedAt at(int rows, int columns) const {
    const int panel = columns / Packed::kPanel * (Packed::kPanelElems * Packed::kSize);
    return (lane ^ static_cast<unsigned>(columns % Packed::kPanel * Packed::kSize)) +
           static_cast<unsigned>(rows * kPanelBytes + panel);
  }
};

/// 16 x 16 elements of the left operand, of a block of rows from a k on.
template <class Th, class A, int kBlocks>
struct LeftFragments {
  static constexpr bool kTurned = kIsTransposed<A>;
  using Tile = std::remove_cvref_t<decltype(tile_of(std::declval<const A&>()))>;
  MatrixRows<Tile> rows;

  __device__ __forceinline__ explicit LeftFragments(const A& a) : rows(of(a)) {}
  __device__ __forceinline__ void load(int k, unsigned (&to)[kBlocks][4]) const {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      if constexpr (kTurned)
        load_matrices<true>(to[block], rows.at(k, Th::kHigh * block));
      else
        load_matrices<false>(to[block], rows.at(Th::kHigh * block, k));
    }
  }

 private:
  /// Matrices 0 and 1 are of rows 0 to 7 and 8 to 15, 2 and 3 of the next 8 k's.
  static __device__ __forceinline__ MatrixRows<Tile> of(const A& a) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first = static_cast<int>(threadIdx.x) / 32 * 16;  // of this warp
    if constexpr (kTurned)
      return {tile_of(a), lane / 16 * 8 + lane % 8, first / 8 + lane / 8 % 2};
    else
      return {tile_of(a), first + lane % 16, lane / 16};
  }
};
/// The same where it lies in registers, as accumulators do.
template <class Th, class A, int kBlocks>
struct HeldFragments {
  const A& a;
  __device__ __forceinline__ void load(int k, unsigned (&to)[kBlocks][4]) const {
    using T = typename A::Element;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int i = 2 * block + part % 2;
        const int j = k / 4 + part / 2 * 2;
        const T two[2] = {a.at(i, j), a.at(i, j + 1)};
        __builtin_memcpy(&to[block][part], two, sizeof two);
      }
    }
  }
};
/// 16 x 16 elements of the right operand: 0 and 1 of the first 8 columns, 2 and 3 of the others.
template <class B>
struct RightFragments {
  static constexpr bool kTurned = kIsTransposed<B>;
  using Tile = std::remove_cvref_t<decltype(tile_of(std::declval<const B&>()))>;
  MatrixRows<Tile> rows;

  __device__ __forceinline__ explicit RightFragments(const B& b) : rows(of(b)) {}
  __device__ __forceinline__ void load(int k, int column, unsigned (&to)[4]) const {
    if constexpr (kTurned)
      load_matrices<false>(to, rows.at(column, k));
    else
      load_matrices<true>(to, rows.at(k, column));
  }

 private:
  static __device__ __forceinline__ MatrixRows<Tile> of(const B& b) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (kTurned)
      return {tile_of(b), lane / 16 * 8 + lane % 8, lane / 8 % 2};
    else
      return {tile_of(b), lane % 16, lane / 16};
  }
};

/// Columns [kBegin, kBegin + kCount) of a by the rows of b from its first on.
template <int kBegin, int kCount, class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void multiply_panels(const A& a, const B& b,
                                                RegTile<Th, float, kR, kC>& sum) {
  using T = typename A::Element;
  constexpr int kBlocks = kR / Th::kHigh;
  constexpr int kGroups = kC / 16;
  constexpr int kAll = kCount / 16 * kGroups;
  constexpr int kAhead = 2;
  using Left = std::conditional_t<kIsShared<A>, LeftFragments<Th, A, kBlocks>,
                                  HeldFragments<Th, A, kBlocks>>;
  const Left left{a};
  const RightFragments<B> right{b};
  unsigned of_a[2][kBlocks][4];
  unsigned of_b[kAhead + 1][4];
  const auto load_right = [&](int n) {
    right.load(n / kGroups * 16, n % kGroups * 16, of_b[n % (kAhead + 1)]);
  };
  left.load(kBegin, of_a[0]);
#pragma unroll
  for (int n = 0; n < kAhead && n < kAll; ++n) load_right(n);
#pragma unroll
  for (int n = 0; n < kAll; ++n) {
    const int step = n / kGroups;
    const int group = n % kGroups;
    if (n + kAhead < kAll) load_right(n + kAhead);
    if (group == (kGroups > kAhead ? kGroups - kAhead : 0) && (step + 1) * kGroups < kAll)
      left.load(kBegin + 16 * (step + 1), of_a[(step + 1) % 2]);
    // Or ptxas moves loads to where they are wanted, to save registers. It is an instruction: one
    // for every four products.
    if (kBlocks > 1 || n % 2 == 0) __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned(&both)[4] = of_b[n % (kAhead + 1)];
      const unsigned of_half[2] = {both[2 * half], both[2 * half + 1]};
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        float* const lo = sum.v[2 * block] + 4 * group + 2 * half;
        float* const hi = sum.v[2 * block + 1] + 4 * group + 2 * half;
        float d[4] = {lo[0], lo[1], hi[0], hi[1]};
        mma_sync<T>(d, of_a[step % 2][block], of_half);
        lo[0] = d[0];
        lo[1] = d[1];
        hi[0] = d[2];
        hi[1] = d[3];
      }
    }
  }
}

template <bool kFresh, class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void panels_multiply_add(const Product<A, B>& product,
                                                    RegTile<Th, float, kR, kC>& sum) {
  if constexpr (kFresh) Cta<Th>::assign(sum, 0.f);
  multiply_in_panels(product, sum, [&](const auto& rows, auto begin, auto count) {
    multiply_panels<decltype(begin)::value, decltype(count)::value>(product.a, rows, sum);
  });
}

}  // namespace tessera::cuda
