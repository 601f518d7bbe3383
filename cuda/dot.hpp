// dot(): by tensor cores where the layout is theirs, else by SIMT lanes.
#pragma once

#include "cuda/simt_dot.hpp"
#include "cuda/tensor_dot.hpp"

namespace tessera::cuda {

template <bool kFresh, class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void multiply_add(const Product<A, B>& product,
                                             RegTile<Th, float, kR, kC>& sum) {
  static_assert(kRowsOf<A> == kR && kColsOf<B> == kC, "extents differ");
  static_assert(kIsShared<B>,
                "the right operand of dot lies in VMEM: store it into vmem<T>(...) scratch first");
  if constexpr (Th::kTensorCores) {
    tensor_multiply_add<kFresh>(product, sum);
  } else {
    if constexpr (kFresh) Cta<Th>::assign(sum, 0.f);
    simt_multiply_add(product, sum);
  }
}

}  // namespace tessera::cuda
