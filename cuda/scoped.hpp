// run_scoped on the device: scratch that lives for the time of one call.
//
// VMEM scratch lies in the kernel's scope_bytes of shared memory, accumulators and SMEM scratch in
// registers. Copies to and from it are made by threads, so that semaphores of copies have nothing
// to count. Arrays in HBM are operands of the kernel here.
#pragma once

#include "cuda/cell.hpp"
#include "cuda/refs.hpp"

namespace tessera::cuda {

template <class Th, int kScope, class Body>
__device__ __forceinline__ void in_scope(ScopeMemory&, Body&& body) {
  body();
}
template <class Th, int kScope, class Body, class Op, class... Rest>
__device__ __forceinline__ void in_scope(ScopeMemory& memory, Body&& body, const Op&,
                                         const Rest&... rest) {
  constexpr Role kRole = Op::kRole;
  static_assert(kRole != Role::hbm,
                "scratch of run_scoped in HBM is not mapped to CUDA: make it an "
                "operand of the kernel");
  static_assert(
      kRole == Role::vmem || kRole == Role::accum || kRole == Role::smem || is_semaphore(kRole),
      "run_scoped makes scratch; inputs and outputs are operands of the kernel");
  using T = typename Op::Element;
  using Block = decltype(Op::block);
  using Extents = decltype(std::declval<Block>().extents);
  const auto others = [&](auto ref) {
    in_scope<Th, kScope>(
        memory, [&](auto... refs) { body(ref, refs...); }, rest...);
  };
  if constexpr (kRole == Role::smem) {
    OwnElements<T, std::tuple_element_t<0, Extents>::value> own;
    others(SmemRef<Th, T, std::tuple_element_t<0, Extents>::value>{own.elem});
  } else if constexpr (kRole == Role::sem) {
    OwnElements<int, std::tuple_element_t<0, Extents>::value> own;
    others(OwnSems{own.elem});
  } else if constexpr (kRole == Role::dma_sem) {
    others(NoSem{});
  } else {
    constexpr int kR = decltype(block_rows(std::declval<Block>()))::value;
    constexpr int kC = decltype(block_cols(std::declval<Block>()))::value;
    if constexpr (kRole == Role::accum) {
      RegTile<Th, T, kR, kC> sum;
      others(AccumRef<Th, T, kR, kC>{&sum});
    } else {
      constexpr int kSlots = [] {
        if constexpr (std::tuple_size_v<Extents> == 3)
          return std::tuple_element_t<0, Extents>::value;
        else
          return 1;
      }();
      using Place = Packing<T, kR / kSlots, kC>;
      constexpr int kBytes = kSlots * Place::kBytes;
      constexpr SharedAt kAlign = static_cast<SharedAt>(Place::kTile.align);
      static_assert(kBytes <= kScope,
                    "run_scoped makes more VMEM scratch than its kernel keeps on a GPU: static "
                    "constexpr int scope_bytes says how much");
      const ScopeMemory before = memory;
      const SharedAt at = (memory.next + kAlign - 1) / kAlign * kAlign;
      memory.next = at + kBytes;
      if (memory.next > memory.end) __trap();  // of scopes inside one another
      others(VmemRef<Th, T, kR, kC, kSlots>{{}, static_cast<T*>(pointer_to(at)), at, kNoMaps});
      memory = before;
    }
  }
}

}  // namespace tessera::cuda
