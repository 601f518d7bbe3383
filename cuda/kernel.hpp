// A body as a CUDA kernel: persistent CTAs that take parallel cells, and in each a loop over the
// arbitrary steps.
//
// The last warpgroup of a CTA produces: it walks the steps ahead of the others and brings an input
// block into the next of its slots when its index changes and the slot is empty. The others consume:
// they wait for the blocks of a step, run the body, and give a slot back when the step after it uses
// another. Every slot has two mbarriers, full and empty. Cells are handed out by a counter in HBM,
// last cell first (under causal masks those are the longest), so that CTAs end together.
#pragma once

#include "cuda/operands.hpp"

namespace tessera::cuda {

inline constexpr int kProducers = 128;

/// Arrays, tensor maps and the counter of a launch. Plain, for the host's stub.
template <int kOperands, int kMaps>
struct Arguments {
  CUtensorMap map[kMaps];
  void* array[kOperands];
  unsigned mapped[(kMaps + 31) / 32];  ///< bit: the map is one
  unsigned* drawn;                     ///< cells handed out after each CTA's first; 0 between runs
  int cells;
  bool by_threads;  ///< some block cannot be brought by the copy engine

  __device__ __forceinline__ bool is_mapped(int i) const {
    return (mapped[i / 32] >> (i % 32) & 1) != 0;
  }
};
template <class S>
using ArgumentsOf = Arguments<SpecTraits<S>::kOperands, SpecTraits<S>::kMaps>;

/// The cells of a CTA, told by one producing thread to everybody.
struct CellRing {
  static constexpr int kSlots = 2;
  Barrier full[kSlots];
  Barrier empty[kSlots];
  int cell[kSlots];

  /// The n-th cell, or -1.
  __device__ __forceinline__ int take(unsigned n) {
    const RingPlace<kSlots> at(n);
    wait(&full[at.slot], at.parity);
    const int taken = cell[at.slot];
    arrive_warp(&empty[at.slot]);
    return taken;
  }
  /// By one thread, before anybody takes it.
  template <class A>
  __device__ __forceinline__ void draw(unsigned n, const A& arguments) {
    const RingPlace<kSlots> at(n);
    wait(&empty[at.slot], at.parity ^ 1);
    int drawn = static_cast<int>(blockIdx.x);
    if (n > 0) {
      const auto before = static_cast<int>(atomicAdd(arguments.drawn, 1));
      drawn = static_cast<int>(gridDim.x) + before;
      // Every CTA draws until there is none: this was the last draw of all.
      if (before == arguments.cells - 1) *arguments.drawn = 0;
    }
    cell[at.slot] = drawn < arguments.cells ? arguments.cells - 1 - drawn : -1;
    arrive(&full[at.slot]);
  }
};

/// What producer and consumers share: the spec, and where things lie in shared memory.
template <class K, class S>
struct Shared {
  using Traits = SpecTraits<S>;
  using Th = typename Traits::Layout;
  static constexpr Stages kStages = Traits::kStages;
  template <std::size_t kI>
  using Of = OperandTraits<S, kI>;

  const K& kernel;
  const S& spec;
  const ArgumentsOf<S>& arguments;
  unsigned char* memory;

  template <std::size_t kI>
  __device__ __forceinline__ auto* tile(int slot) const {
    using T = typename Of<kI>::T;
    return reinterpret_cast<T*>(memory + Traits::tiles_before(kI, kStages) +
                                slot * Of<kI>::Place::kBytes);
  }
  template <std::size_t kI>
  __device__ __forceinline__ Barrier* barriers() const {
    return reinterpret_cast<Barrier*>(memory + Traits::kBarriersAt) +
           Traits::barriers_before(kI, kStages);
  }
  template <std::size_t kI>
  __device__ __forceinline__ Barrier* full(int slot) const {
    return barriers<kI>() + slot;
  }
  template <std::size_t kI>
  __device__ __forceinline__ Barrier* empty(int slot) const {
    return barriers<kI>() + Of<kI>::slots(kStages) + slot;
  }
  __device__ __forceinline__ CellRing& ring() const {
    return *reinterpret_cast<CellRing*>(memory + Traits::kCellRingAt);
  }
  static_assert(sizeof(CellRing) <= Traits::kCellRing);

  /// By one thread, before the roles part.
  template <std::size_t... kI>
  __device__ __forceinline__ void init(std::index_sequence<kI...>) const {
    (init_operand<kI>(), ...);
    for (int s = 0; s < CellRing::kSlots; ++s) {
      init_barrier(&ring().full[s], 1);
      init_barrier(&ring().empty[s], (Th::kThreads + producers()) / 32);
    }
  }
  /// Threads that produce: a warpgroup where threads may have to copy, else one warp.
  __device__ __forceinline__ int producers() const { return arguments.by_threads ? kProducers : 32; }

 private:
  template <std::size_t kI>
  __device__ __forceinline__ void init_operand() const {
    if constexpr (Of<kI>::kIn) {
      for (int s = 0; s < Of<kI>::slots(kStages); ++s) {
        init_barrier(full<kI>(s), 1);
        init_barrier(empty<kI>(s), Th::kThreads / 32);
      }
    } else if constexpr (Of<kI>::kDmaSem) {
      for (int s = 0; s < Of<kI>::kCount; ++s) init_barrier(barriers<kI>() + s, 1);
    }
  }
};

/// A ring of slots seen from one side: uses so far, and the block index of the last.
struct Lane {
  int index[kMaxRank];
  unsigned uses = 0;
  bool in_cell = false;  ///< one of this cell's uses is the last

  /// True if a step's block is another than the last one.
  template <class Index>
  __device__ __forceinline__ bool moves(const Index& to) {
    bool differs = !in_cell;
#pragma unroll
    for (int d = 0; d < Index::kRank; ++d) {
      const int at = static_cast<int>(to.index[d]);
      differs = differs || at != index[d];
      index[d] = at;
    }
    return differs;
  }
};

/// What the copy engine puts outside of an array is what the operand wants there.
template <class Op>
__host__ __device__ bool zero_padded(const Op& op) {
  return !op.padded || op.pad_value == 0;
}

template <class K, class S, class = OperandIndices<S>>
struct Producer;
template <class K, class S, std::size_t... kI>
struct Producer<K, S, std::index_sequence<kI...>> {
  using G = typename S::GridType;
  template <std::size_t kJ>
  using Of = OperandTraits<S, kJ>;
  static constexpr Stages kStages = SpecTraits<S>::kStages;

  const Shared<K, S>& shared;
  int thread;
  Lane lanes[sizeof...(kI)];

  __device__ __forceinline__ void run() {
    for (unsigned n = 0;; ++n) {
      if (thread == 0) shared.ring().draw(n, shared.arguments);
      __syncwarp();
      const int cell = shared.ring().take(n);
      if (cell < 0) return;
      ((lanes[kI].in_cell = false), ...);
      for (Cursor<G> at(shared.spec.grid, cell); at.alive; at.advance(shared.spec.grid))
        (fetch<kI>(at), ...);
    }
  }

 private:
  template <std::size_t kJ>
  __device__ __forceinline__ void fetch(const Cursor<G>& step) {
    if constexpr (Of<kJ>::kIn) {
      const auto& op = std::get<kJ>(shared.spec.operands);
      Lane& lane = lanes[kJ];
      if (!op.present || (!Of<kJ>::kArbitraryIndex && lane.in_cell)) return;
      const auto index = with_ids<G, G::kRank>(op.map, step.ids);
      if (!lane.moves(index)) return;
      lane.in_cell = true;
      const RingPlace<Of<kJ>::slots(kStages)> at(lane.uses++);
      wait(shared.template empty<kJ>(at.slot), at.parity ^ 1);
      bring<kJ>(region(op.block, op.shape, index.index), at.slot);
    }
  }

  template <std::size_t kJ, class Where>
  __device__ __forceinline__ void bring(const Where& where, int slot) {
    using T = typename Of<kJ>::T;
    constexpr int kR = Of<kJ>::kR;
    constexpr int kC = Of<kJ>::kC;
    const auto& op = std::get<kJ>(shared.spec.operands);
    using Box = PanelBox<T, kR, kC, std::remove_cvref_t<decltype(op.block)>>;
    const auto& arguments = shared.arguments;
    T* const to = shared.template tile<kJ>(slot);
    Barrier* const full = shared.template full<kJ>(slot);
    const T* const array = static_cast<const T*>(arguments.array[kJ]);
    constexpr int kBytes = kR * kC * static_cast<int>(sizeof(T));
    if constexpr (kR == 1 && kBytes % 16 == 0) {
      const long long begin = where.row(0);
      if (begin >= 0 && where.columns() == kC && aligned16(array + begin)) {
        if (thread == 0) {
          arrive_expecting(full, kBytes);
          copy_line(to, array + begin, kBytes, full);
        }
        return;
      }
    } else if constexpr (Box::kMappable) {
      if (arguments.is_mapped(kJ) && (zero_padded(op) || where.whole())) {
        if (thread == 0) {
          arrive_expecting(full, Box::kBytes);
          copy_box<Box>(to, arguments.map[kJ], where.start, full);
        }
        return;
      }
    }
    const T pad = convert<T>(op.padded ? op.pad_value : 0.0);
    copy_rows<kProducers, T, kR, kC>(
        to, thread, kR, where.columns(),
        [&](int r) {
          const long long offset = where.row(r);
          return offset < 0 ? nullptr : array + offset;
        },
        &pad);
    fence_async_proxy();
    meet<Meeting::producers, kProducers>();
    if (thread == 0) arrive(full);
  }
};

template <class K, class S, class = OperandIndices<S>>
struct Consumer;
template <class K, class S, std::size_t... kI>
struct Consumer<K, S, std::index_sequence<kI...>> {
  using G = typename S::GridType;
  using Th = typename SpecTraits<S>::Layout;
  template <std::size_t kJ>
  using Of = OperandTraits<S, kJ>;
  static constexpr Stages kStages = SpecTraits<S>::kStages;

  struct Nothing {};
  struct Phases {
    unsigned bits = 0;
  };
  template <std::size_t kJ>
  using State = std::conditional_t<
      Of<kJ>::kIn, Lane,
      std::conditional_t<Of<kJ>::kAccum,
                         RegTile<Th, typename Of<kJ>::T, Of<kJ>::kR, Of<kJ>::kC>,
                         std::conditional_t<Of<kJ>::kDmaSem, Phases, Nothing>>>;
  /// The operands that the body gets.
  static constexpr int kPassed = (0 + ... + (Of<kI>::kPassed ? 1 : 0));
  static constexpr std::size_t passed(int n) {
    constexpr bool is[] = {Of<kI>::kPassed...};
    std::size_t i = 0;
    for (;; ++i) {
      if (is[i] && n-- == 0) return i;
    }
  }

  const Shared<K, S>& shared;
  std::tuple<State<kI>...> state;

  __device__ __forceinline__ void run() {
    for (unsigned n = 0;; ++n) {
      const int cell = shared.ring().take(n);
      if (cell < 0) return;
      for (Cursor<G> at(shared.spec.grid, cell); at.alive; at.advance(shared.spec.grid)) {
        (use<kI>(at), ...);
        Env<G> env{&at};
        call(env, at, std::make_integer_sequence<int, kPassed>{});
      }
      (leave<kI>(), ...);
    }
  }

 private:
  /// Waits for the block of a step; the one before is given back.
  template <std::size_t kJ>
  __device__ __forceinline__ void use(const Cursor<G>& step) {
    if constexpr (Of<kJ>::kIn) {
      const auto& op = std::get<kJ>(shared.spec.operands);
      Lane& lane = std::get<kJ>(state);
      if (!op.present || (!Of<kJ>::kArbitraryIndex && lane.in_cell)) return;
      if (!lane.moves(with_ids<G, G::kRank>(op.map, step.ids))) return;
      leave<kJ>();
      lane.in_cell = true;
      const RingPlace<Of<kJ>::slots(kStages)> at(lane.uses++);
      wait(shared.template full<kJ>(at.slot), at.parity);
    }
  }
  template <std::size_t kJ>
  __device__ __forceinline__ void leave() {
    if constexpr (Of<kJ>::kIn) {
      Lane& lane = std::get<kJ>(state);
      if (!lane.in_cell) return;
      lane.in_cell = false;
      const RingPlace<Of<kJ>::slots(kStages)> at(lane.uses - 1);
      arrive_warp(shared.template empty<kJ>(at.slot));
    }
  }
  template <int... kN>
  __device__ __forceinline__ void call(Env<G>& env, const Cursor<G>& at,
                                       std::integer_sequence<int, kN...>) {
    shared.kernel(env, ref<passed(kN)>(at)...);
  }
  template <std::size_t kJ>
  __device__ __forceinline__ auto ref(const Cursor<G>& step) {
    using Tr = Of<kJ>;
    using T = typename Tr::T;
    const auto& op = std::get<kJ>(shared.spec.operands);
    if constexpr (Tr::kIn) {
      const RingPlace<Tr::slots(kStages)> at(std::get<kJ>(state).uses - 1);
      return InRef<Th, T, Tr::kR, Tr::kC>{shared.template tile<kJ>(at.slot)};
    } else if constexpr (Tr::kOut) {
      const auto index = with_ids<G, G::kRank>(op.map, step.ids);
      const auto where = region(op.block, op.shape, index.index);
      return OutRef<Th, T, Tr::kR, Tr::kC, std::remove_const_t<decltype(where)>>{
          static_cast<T*>(shared.arguments.array[kJ]), where};
    } else if constexpr (Tr::kAccum) {
      return AccumRef<Th, T, Tr::kR, Tr::kC>{&std::get<kJ>(state)};
    } else if constexpr (Tr::kVmem) {
      return VmemRef<Th, T, Tr::kR, Tr::kC, Tr::kCount>{shared.template tile<kJ>(0),
                                                        SpecTraits<S>::vmem_before(kJ)};
    } else if constexpr (Tr::kHbm) {
      const int last = op.shape.rank - 1;
      const long long pitch = op.shape[last];
      constexpr int kMap = SpecTraits<S>::pair_map(kJ);
      unsigned mapped = 0;
      for (int v = 0; v < SpecTraits<S>::kVmems; ++v)
        mapped |= shared.arguments.is_mapped(kMap + v) ? 1u << v : 0u;
      return HbmPart<T, Tr::role() != Role::hbm_in>{
          static_cast<T*>(shared.arguments.array[kJ]),
          pitch,
          shared.arguments.map + kMap,
          mapped,
          static_cast<int>(op.shape.elems() / (pitch > 0 ? pitch : 1)),
          static_cast<int>(pitch)};
    } else {
      static_assert(Tr::kCount <= 32, "at most 32 semaphores per operand");
      return SemsRef{shared.template barriers<kJ>(), &std::get<kJ>(state).bits};
    }
  }
};

/// Registers of producing and computing threads: setmaxnreg moves the former's to the latter.
template <int kConsumers>
struct Registers {
  static constexpr int kAll = 65536 / 128;  ///< per thread of a warpgroup, were there one alone
  static constexpr int kProducing = kConsumers <= 256 ? 72 : 56;
  static constexpr int kFair = kAll / (kConsumers / 128 + 1) / 8 * 8;
  static constexpr int kLeft = (kAll - kProducing) / (kConsumers / 128) / 8 * 8;
  static constexpr int kComputing = kLeft < 240 ? kLeft : 240;
  /// Where every thread can have 240 there is nothing to move.
  static constexpr bool kMoves = kFair < 240;
};

/// kOperands and kMaps are the spec's: the host's stub cannot name a spec.
template <class K, int kOperands, int kMaps, int... kTiles>
__global__ void __launch_bounds__(SpecTraits<SpecOf<K, kTiles...>>::Layout::kThreads + kProducers,
                                  1)
    run_cells(const __grid_constant__ K kernel, 
              const __grid_constant__ Arguments<kOperands, kMaps> arguments) {
  using S = SpecOf<K, kTiles...>;
  using Th = typename SpecTraits<S>::Layout;
  using Regs = Registers<Th::kThreads>;
  extern __shared__ __align__(1024) unsigned char memory[];
  unsigned char* const begin =
      memory + (1024 - static_cast<unsigned>(__cvta_generic_to_shared(memory)) % 1024) % 1024;
  const S spec = kernel.spec(Int<kTiles>{}...);
  const Shared<K, S> shared{kernel, spec, arguments, begin};
  if (threadIdx.x == 0) {
    shared.init(OperandIndices<S>{});
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    fence_async_proxy();
  }
  __syncthreads();
  if (threadIdx.x >= Th::kThreads) {
    if constexpr (Regs::kMoves)
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Regs::kProducing));
    const int thread = static_cast<int>(threadIdx.x) - Th::kThreads;
    if (thread < shared.producers()) Producer<K, S>{shared, thread, {}}.run();
  } else {
    if constexpr (Regs::kMoves)
      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Regs::kComputing));
    Consumer<K, S>{shared, {}}.run();
  }
}

}  // namespace tessera::cuda
