// Matrix products by tensor cores (wgmma), f32 sums of bf16 or f16 products.
//
// Each warpgroup multiplies its own 64 rows (of every 64 kWarpgroups). A left operand lies in
// shared memory or in registers as accumulators are; a right one in shared memory: from registers
// it is put there first. The order of the sums is the tensor cores' (DESIGN, "Tensor cores").
#pragma once

#include "cuda/tile.hpp"
#include "cuda/wgmma.hpp"

namespace tessera::cuda {

/// Shared memory that a product's right operand may be put into, beside what the spec asks for.
inline constexpr int kStagedBytes = 32 * 1024;

/// Columns of one instruction: the most that are left.
constexpr int wgmma_columns(int left) { return left >= 256 ? 256 : left >= 128 ? 128 : 64; }

/// Columns kFrom and on of a k block's product, for the 64 rows whose held rows are lo and hi.
template <class T, int kC, int kFrom, bool kTransA, bool kTransB, class A, class AtB>
__device__ __forceinline__ void multiply_columns(float* lo, float* hi, const A& a, AtB&& b_at,
                                                 bool add_to) {
  if constexpr (kFrom < kC) {
    constexpr int kN = wgmma_columns(kC - kFrom);
    const std::uint64_t b = b_at(kFrom);
    // Held columns come in pairs of every 8.
    if constexpr (std::is_same_v<A, std::uint64_t>)
      wgmma<T, kN, kTransA, kTransB>(lo + kFrom / 4, hi + kFrom / 4, a, b, add_to);
    else
      wgmma<T, kN, kTransB>(lo + kFrom / 4, hi + kFrom / 4, a, b, add_to);
    multiply_columns<T, kC, kFrom + kN, kTransA, kTransB>(lo, hi, a, b_at, add_to);
  }
}

template <bool kFresh, class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void multiply_shared(const A& a, const B& b,
                                                RegTile<Th, float, kR, kC>& sum) {
  using T = typename A::Element;
  constexpr int kK = kColsOf<A>;
  constexpr int kStep = 16;
  constexpr int kPanel = kPanelBytes / static_cast<int>(sizeof(T));
  static_assert(kR % Th::kHigh == 0, "rows of a product: 64 per warpgroup");
  static_assert(kK % kStep == 0 && kC % 64 == 0,
                "a product on tensor cores has k a multiple of 16 and columns a multiple of 64");
  constexpr bool kTransB = !kIsTransposed<B>;
  // Where the rows (columns) and k's of an operand begin.
  const auto b_at = [&](int k, int c) {
    if constexpr (kTransB) {
      static_assert(B::Packed::kPanelled, "columns of dot's right operand: a multiple of 128 bytes");
      const T* const from = b.data + c / kPanel * B::Packed::kPanelElems + k * kPanel;
      return matrix_descriptor(from, false, B::Packed::kPanelElems * static_cast<int>(sizeof(T)));
    } else {
      using Packed = typename decltype(B::tile)::Packed;
      static_assert(Packed::kPanelled, "columns of a transposed operand: a multiple of 128 bytes");
      return matrix_descriptor(
          b.tile.data + k / kPanel * Packed::kPanelElems + c * kPanel + k % kPanel, true, 0);
    }
  };
  wgmma_fence();
#pragma unroll
  for (int block = 0; block < kR / Th::kHigh; ++block) {
    float* const lo = sum.v[2 * block];
    float* const hi = sum.v[2 * block + 1];
    const int row = Th::kHigh * block + 64 * Th::warpgroup();
#pragma unroll
    for (int k = 0; k < kK; k += kStep) {
      const bool add_to = !kFresh || k > 0;
      const auto b_columns = [&](int c) { return b_at(k, c); };
      if constexpr (!kIsShared<A>) {
        static_assert(!kIsTransposed<A>, "a transposed left operand lies in VMEM");
        unsigned fragment[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int i = 2 * block + part % 2;
          const int j = k / 4 + part / 2 * 2;
          const T two[2] = {a.at(i, j), a.at(i, j + 1)};
          __builtin_memcpy(&fragment[part], two, sizeof two);
        }
        multiply_columns<T, kC, 0, false, kTransB>(lo, hi, fragment, b_columns, add_to);
      } else if constexpr (kIsTransposed<A>) {
        using Packed = typename decltype(A::tile)::Packed;
        static_assert(Packed::kPanelled, "columns of a transposed operand: a multiple of 128 bytes");
        const T* const from = a.tile.data + row / kPanel * Packed::kPanelElems + k * kPanel;
        multiply_columns<T, kC, 0, true, kTransB>(
            lo, hi,
            matrix_descriptor(from, false, Packed::kPanelElems * static_cast<int>(sizeof(T))),
            b_columns, add_to);
      } else {
        static_assert(A::Packed::kPanelled, "columns of dot's left operand: a multiple of 128 bytes");
        const T* const from =
            a.data + k / kPanel * A::Packed::kPanelElems + row * kPanel + k % kPanel;
        multiply_columns<T, kC, 0, false, kTransB>(lo, hi, matrix_descriptor(from, true, 0),
                                                   b_columns, add_to);
      }
    }
  }
  wgmma_wait_all();
  pin(sum);
}

template <bool kFresh, class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void tensor_multiply_add(const Product<A, B>& product,
                                                    RegTile<Th, float, kR, kC>& sum) {
  using T = typename A::Element;
  static_assert(std::is_same_v<T, bf16> || std::is_same_v<T, f16>,
                "tensor cores multiply bf16 and f16");
  if constexpr (kIsShared<B>) {
    multiply_shared<kFresh>(product.a, product.b, sum);
  } else {
    static_assert(!kIsTransposed<B>, "a transposed right operand lies in VMEM");
    constexpr int kK = kColsOf<A>;
    using Staged = SharedTile<Th, T, kK, kC>;
    static_assert(Staged::Packed::kBytes <= kStagedBytes,
                  "a right operand of dot that is not in VMEM: at most 32 KiB");
    __shared__ __align__(1024) unsigned char staged[Staged::Packed::kBytes];
    const Staged tile{reinterpret_cast<T*>(staged)};
    Th::sync();
    store_shared<Th>(tile, product.b);
    fence_async_proxy();
    Th::sync();
    multiply_shared<kFresh>(product.a, tile, sum);
  }
}

}  // namespace tessera::cuda
