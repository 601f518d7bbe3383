// dot(): each product by itself. Products of 16-bit floats are of tensor cores where the kernel's
// threads are laid out for them (sim/body/cta.hpp), by wgmma or by mma.sync, all others of SIMT
// lanes. The portable build has no wgmma.
#pragma once

#include "cuda/codes.hpp"
#include "cuda/mma_dot.hpp"
#include "cuda/panel_dot.hpp"
#include "cuda/simt_dot.hpp"
#include "cuda/tensor_dot.hpp"

namespace tessera::cuda {

template <bool kFresh, class Th, class A, class B, class Sum, int kR, int kC>
__device__ __forceinline__ void multiply_add(const Product<A, B>& product,
                                             RegTile<Th, Sum, kR, kC>& sum) {
  static_assert(kRowsOf<A> == kR && kColsOf<B> == kC, "extents differ");
  static_assert(std::is_same_v<Sum, typename Product<A, B>::Element>,
                "dot() accumulates in f32 (i32 for 8-bit integers): give it such a ref");
  if constexpr (kIsTransposed<A> && !kIsShared<A>) {
    // A value: its elements change places first.
    const auto turned = Cta<Th>::load(product.a);
    multiply_add<kFresh>(Product<std::remove_const_t<decltype(turned)>, B>{turned, product.b}, sum);
  } else if constexpr (Th::kTensorCores && !Th::kWgmma && takes_words<A, B>()) {
    if constexpr (kFresh) Cta<Th>::assign(sum, Sum{});
    multiply_words(product.a, product.b, sum);
  } else if constexpr (Th::kTensorCores && !Th::kWgmma) {
    warps_multiply_add<kFresh>(product, sum);
  } else if constexpr (Th::kWgmma && kIsHalf<typename A::Element>) {
    if constexpr (kHopper)
      tensor_multiply_add<kFresh>(product, sum);
    else
      panels_multiply_add<kFresh>(product, sum);
  } else {
    if constexpr (kFresh) Cta<Th>::assign(sum, Sum{});
    simt_multiply_add(product, sum);
  }
}

}  // namespace tessera::cuda
