// A body as a CUDA kernel: persistent CTAs that take parallel cells, and in each a loop over the
// arbitrary steps.
//
// The portable build is the same, with cp.async in place of the copy engine: every thread of the
// last warpgroup starts its part of a block, and arrives when it has landed.
//
// The last warpgroup of a CTA produces: it walks the steps ahead of the others and brings an input
// block into the next of its slots when its index changes and the slot is empty. The others
// consume: they wait for the blocks of a step, run the body, and give a slot back when the step
// after it uses another. Every slot has two mbarriers, full and empty; where threads copy, each of
// them arrives, and each of the others gives back. Inputs with a new block at every step share
// theirs. Groups of warps that do the runs of a sum side by side (cuda/runs.hpp) have slots of
// their own for those, and one step after another is brought for each of them in turn, by up to
// four threads, which have runs of their own: one would be behind. Cells are handed out by a
// counter in HBM, last cell first (under causal masks those are the longest), so that CTAs end
// together.
#pragma once

#include "cuda/checksums.hpp"
#include "cuda/operands.hpp"
#include "cuda/runs.hpp"
#include "cuda/scoped.hpp"

namespace tessera::cuda {

using cta::kProducers;

/// Arrays, tensor maps and the counter of a launch. Plain, for the host's stub.
template <int kOperands, int kMaps>
struct Arguments {
  ArrayMap map[kMaps];
  void* array[kOperands];
  unsigned mapped[(kMaps + 31) / 32];  ///< bit: the map is one
  unsigned* drawn;                     ///< cells handed out after each CTA's first; 0 between runs
  Peers peers;
  StepTable steps;
  int cells;
  bool by_threads;  ///< some block cannot be brought by the copy engine

  __device__ __forceinline__ bool is_mapped(int i) const {
    return (mapped[i / 32] >> (i % 32) & 1) != 0;
  }
};
template <class S>
using ArgumentsOf = Arguments<SpecTraits<S>::kOperands, SpecTraits<S>::kMaps>;

/// The cells of a CTA, told by one producing thread to everybody: in shared memory, a ring of two.
struct CellRing {
  static constexpr int kSlots = 2;
  static constexpr int kBytes = kSlots * (2 * kBarrierBytes + 4);
  SharedAt at;
  Ring<kSlots> ring{};

  __device__ __forceinline__ SharedAt full() const { return at + ring.slot * kBarrierBytes; }
  __device__ __forceinline__ SharedAt empty() const {
    return at + (kSlots + ring.slot) * kBarrierBytes;
  }
  __device__ __forceinline__ SharedAt cell() const {
    return at + 2 * kSlots * kBarrierBytes + ring.slot * 4;
  }
  __device__ __forceinline__ void init(int takers) {
    for (int s = 0; s < kSlots; ++s) {
      init_barrier(full(), 1);
      init_barrier(empty(), takers);
      ring.advance();
    }
  }
  /// The next cell, or -1. kAlone: of its warp, only this thread takes it.
  template <bool kAlone = false>
  __device__ __forceinline__ int take(bool leader) {
    wait(full(), ring.parity);
    int taken = 0;
    if (leader) {
      asm volatile("ld.shared.s32 %0, [%1];" : "=r"(taken) : "r"(cell()) : "memory");
      arrive(empty());
    }
    ring.advance();
    if constexpr (kAlone) return taken;
    return __shfl_sync(0xffffffffu, taken, 0);  // known to be the warp's: uniform registers
  }
  /// By one thread, before anybody takes it.
  template <class A>
  __device__ __forceinline__ void draw(bool first, const A& arguments) const {
    wait<true>(empty(), ring.parity ^ 1);
    int drawn = static_cast<int>(blockIdx.x);
    if (!first) {
      const auto before = static_cast<int>(atomicAdd(arguments.drawn, 1));
      drawn = static_cast<int>(gridDim.x) + before;
      // Every CTA draws until there is none: this was the last draw of all.
      if (before == arguments.cells - 1) *arguments.drawn = 0;
    }
    const int told = drawn < arguments.cells ? arguments.cells - 1 - drawn : -1;
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(cell()), "r"(told) : "memory");
    arrive(full());
  }
};

/// What producer and consumers share: the spec, and where things lie in shared memory.
template <class K, class S>
struct Shared {
  using Traits = SpecTraits<S>;
  using Th = typename Traits::Layout;
  template <std::size_t kI>
  using Of = OperandTraits<S, kI>;

  const K& kernel;
  const S& spec;
  const ArgumentsOf<S>& arguments;
  unsigned char* memory;  ///< at kSharedBegin
  bool leader;            ///< this thread speaks for its warp

  template <std::size_t kI>
  __device__ __forceinline__ auto* tile(unsigned slot) const {
    using T = typename Of<kI>::T;
    return reinterpret_cast<T*>(memory + Traits::template kTilesAt<kI> +
                                slot * Of<kI>::Place::kBytes);
  }
  template <std::size_t kI>
  __device__ __forceinline__ SharedAt tile_at(unsigned slot) const {
    return kSharedBegin + Traits::template kTilesAt<kI> + slot * Of<kI>::Place::kBytes;
  }
  template <std::size_t kI>
  __device__ __forceinline__ SharedAt barriers() const {
    constexpr std::size_t kOf = Of<kI>::kEveryStep ? Traits::kFirstEveryStep : kI;
    return kSharedBegin + Traits::template kBarriersAt<kOf>;
  }
  template <std::size_t kI>
  __device__ __forceinline__ SharedAt full(unsigned slot) const {
    return barriers<kI>() + slot * kBarrierBytes;
  }
  template <std::size_t kI>
  __device__ __forceinline__ SharedAt empty(unsigned slot) const {
    return barriers<kI>() + (SpecTraits<S>::template kSlots<kI> + slot) * kBarrierBytes;
  }
  __device__ __forceinline__ CellRing cells() const { return {kSharedBegin + Traits::kCellRingAt}; }
  static_assert(CellRing::kBytes <= cta::kCellRing);

  /// By one thread, before the roles part.
  template <std::size_t... kI>
  __device__ __forceinline__ void init(std::index_sequence<kI...>) const {
    (init_operand<kI>(), ...);
    cells().init((Traits::kComputing + producers()) / 32);
  }
  /// Threads that produce: a warpgroup where threads may have to copy, else a warp, or several that
  /// fetch for runs of their own.
  __device__ __forceinline__ int producers() const {
    return copied_by_threads() ? kProducers : 32 * Traits::kFetchers;
  }
  /// Whether each producing thread arrives at a slot that is full.
  __device__ __forceinline__ bool copied_by_threads() const {
    return !kHopper || arguments.by_threads;
  }
  /// At a slot of what every step has: one thread that fetches for runs says once what comes.
  __device__ __forceinline__ int arrivals_of_step() const {
    return Traits::kGroups > 1 && !copied_by_threads() ? 1 : Traits::kEverySteps;
  }
  /// Whether each thread, not one for its warp, gives a slot back.
  __device__ __forceinline__ bool all_give_back() const {
    return kHopper ? arguments.by_threads : kEveryThreadArrives;
  }

 private:
  template <std::size_t kI>
  __device__ __forceinline__ void init_operand() const {
    static_assert(
        Traits::kGroups == 1 || !Of<kI>::kIn || Of<kI>::kEveryStep || !Of<kI>::kArbitraryIndex,
        "where a sum has runs, inputs have another block at every step, or one of a cell");
    if constexpr (Of<kI>::kEveryStep && kI != Traits::kFirstEveryStep) {
      return;
    } else if constexpr (Of<kI>::kIn) {
      const int shared_by = Of<kI>::kEveryStep ? arrivals_of_step() : 1;
      constexpr int kTakers = Of<kI>::kEveryStep ? Th::kThreads : Traits::kComputing;
      for (unsigned s = 0; s < SpecTraits<S>::template kSlots<kI>; ++s) {
        init_barrier(full<kI>(s), shared_by * (copied_by_threads() ? kProducers : 1));
        init_barrier(empty<kI>(s), all_give_back() ? kTakers : kTakers / 32);
      }
    } else if constexpr (Of<kI>::kDmaSem) {
      for (int s = 0; s < Of<kI>::kCount; ++s)
        init_barrier(barriers<kI>() + static_cast<unsigned>(s) * kBarrierBytes, 1);
    }
  }
};

/// The slots that inputs with a new block at every step share, seen from one side: those of one
/// group.
template <int kSlots, int kGroups>
struct EveryStep {
  Ring<kSlots> ring{};
  unsigned group = 0;

  __device__ __forceinline__ unsigned slot() const {
    if constexpr (kGroups == 1)
      return ring.slot;
    else
      return group * kSlots + ring.slot;
  }
};

/// The slots of an input whose block changes at some steps, seen from one side: the next to use,
/// and the block index of the last use.
template <int kSlots>
struct Lane {
  int index[kMaxRank];
  Ring<kSlots> next{};
  unsigned held = 0;     ///< the slot of the last use
  bool in_cell = false;  ///< there was one in this cell
  bool turns = false;    ///< this step's is another than the last

  /// True if a step's block is another than the last one: within a cell, what does not depend on an
  /// arbitrary dimension stays.
  template <class... I>
  __device__ __forceinline__ bool moves(const BlockIndex<I...>& to) {
    bool differs = !in_cell;
    int d = 0;
    (
        [&] {
          if constexpr (kIsArbitrary<I>) {
            const int at = static_cast<int>(to.index[d]);
            differs = differs || at != index[d];
            index[d] = at;
          }
          ++d;
        }(),
        ...);
    return differs;
  }
};

/// What the copy engine puts outside of an array is what the operand wants there.
template <class Op>
__host__ __device__ bool zero_padded(const Op& op) {
  return !op.padded || op.pad_value == 0;
}

/// A kernel whose CTAs may be there before the kernel before it has ended.
template <class S>
inline constexpr bool kStartsEarly = kHopper && !kOnPeers<S>;
/// Whatever lies in global memory is the kernel's before this one until that has ended: all that
/// reads or writes there waits first.
template <class S>
__device__ __forceinline__ void wait_for_kernel_before() {
  if constexpr (kStartsEarly<S>) asm volatile("griddepcontrol.wait;" ::: "memory");
}

template <class K, class S, class = OperandIndices<S>>
struct Producer;
template <class K, class S, std::size_t... kI>
struct Producer<K, S, std::index_sequence<kI...>> {
  using G = typename S::GridType;
  template <std::size_t kJ>
  using Of = OperandTraits<S, kJ>;

  const Shared<K, S>& shared;
  int thread;
  CellRing cells;
  std::tuple<Lane<SpecTraits<S>::template kSlots<kI>>...> lanes;
  EveryStep<SpecTraits<S>::kStages.of_step, SpecTraits<S>::kGroups> every_step{};
  int fetcher = 0;   ///< which of the warps that fetch, each for other runs of a sum
  int expected = 0;  ///< bytes of this step: told once, when all copies have been started

  /// Copies of a run's step are announced together, by the one thread that starts them.
  template <std::size_t kJ>
  static constexpr bool kArrivesOnce = SpecTraits<S>::kGroups > 1 && Of<kJ>::kEveryStep;

  __device__ __forceinline__ void run() {
    // Where the copy engine brings all, what threads would do is no part of the loop: its
    // instructions would be far apart. One thread is enough, and where nvcc knows it to be one, a
    // copy is an instruction; else it is a loop over the threads that might be there.
    if constexpr (kHopper) {
      if (!shared.arguments.by_threads) {
        if constexpr (SpecTraits<S>::kFetchers > 1)
          fetcher = __shfl_sync(0xffffffffu, thread / 32, 0);
        if (elected()) bring_all<true>();
        return;
      }
    }
    bring_all<false>();
  }

 private:
  /// kEngine: the copy engine brings every block, and this thread is alone.
  template <bool kEngine>
  __device__ __forceinline__ void bring_all() {
    constexpr int kGroups = SpecTraits<S>::kGroups;
    [[maybe_unused]] RunAhead ahead[kEngine ? kGroups / SpecTraits<S>::kFetchers : kGroups];
    for (bool first = true;; first = false) {
      if (kEngine ? fetcher == 0 : thread == 0) cells.draw(first, shared.arguments);
      if constexpr (!kEngine) __syncwarp();
      const int cell = cells.take<kEngine>(kEngine || shared.leader);
      if (cell < 0) return;
      ((std::get<kI>(lanes).in_cell = false), ...);
      if constexpr (kGroups > 1) {
        bring_runs<kEngine>(cell, first, ahead);
        continue;
      } else {
        Cursor<G> at(shared.spec.grid, cell);
        if (first) wait_for_kernel_before<S>();
        for (; at.alive; at.advance(shared.spec.grid)) {
          (fetch<kEngine, kI>(at), ...);
          every_step.ring.advance();
        }
      }
    }
  }

  /// What of a run of a cell is to be brought, and how many steps of its group were.
  struct RunAhead {
    int next = 0;
    int end = 0;
    Ring<SpecTraits<S>::kStages.of_step> ring{};
  };
  /// A step of each run, then the next of each: of all, or of every kFetchers-th, where the one
  /// whose turn it is comes first in `ahead`, so that nothing of it is in memory.
  template <bool kEngine, int kMine>
  __device__ __forceinline__ void bring_runs(int cell, bool first_cell, RunAhead (&ahead)[kMine]) {
    constexpr int kStep = G::kRank - 1;
    constexpr int kApart = SpecTraits<S>::kGroups / kMine;
    Cursor<G> at(shared.spec.grid, cell, fetcher);
    if (first_cell) wait_for_kernel_before<S>();
    bool more = true;
    for (bool first = true; more; first = false) {
      more = false;
#pragma unroll 1
      for (int i = 0; i < kMine; ++i) {
        const int group = fetcher + i * kApart;
        RunAhead run = ahead[kEngine ? 0 : i];
        if (first) {
          if (i > 0) at.set_run(shared.spec.grid, group);
          run.next = at.ids[kStep];
          run.end = at.hi[kStep];
        }
        if (run.next < run.end) {
          more = true;
          at.ids[G::kParallel] = group;
          at.ids[kStep] = run.next;
          every_step.group = static_cast<unsigned>(group);
          every_step.ring = run.ring;
          (fetch<kEngine, kI>(at), ...);
          if constexpr (kEngine && SpecTraits<S>::kEverySteps > 0) {
            arrive_expecting(
                shared.template full<SpecTraits<S>::kFirstEveryStep>(every_step.slot()), expected);
            expected = 0;
          }
          run.ring.advance();
          ++run.next;
        }
        if constexpr (kEngine) {
#pragma unroll
          for (int j = 0; j + 1 < kMine; ++j) ahead[j] = ahead[j + 1];
          ahead[kMine - 1] = run;
        } else {
          ahead[i] = run;
        }
      }
    }
  }
  template <bool kEngine, std::size_t kJ>
  __device__ __forceinline__ void fetch(const Cursor<G>& step) {
    if constexpr (Of<kJ>::kIn) {
      const auto& op = std::get<kJ>(shared.spec.operands);
      if constexpr (Of<kJ>::kEveryStep) {
        const unsigned slot = every_step.slot();
        if constexpr (kJ == SpecTraits<S>::kFirstEveryStep)
          wait<true>(shared.template empty<kJ>(slot), every_step.ring.parity ^ 1);
        const auto index = with_ids<G, G::kRank>(op.map, step.ids);
        if (op.present)
          bring<kEngine, kJ>(index.index, slot);
        else
          announce<kEngine, kJ>(shared.template full<kJ>(slot), 0);
      } else {
        if (kEngine && SpecTraits<S>::kFetchers > 1 && fetcher > 0) return;  // the first brings it
        auto& lane = std::get<kJ>(lanes);
        if (!op.present || (!Of<kJ>::kArbitraryIndex && lane.in_cell)) return;
        const auto index = with_ids<G, G::kRank>(op.map, step.ids);
        if (!lane.moves(index)) return;
        lane.in_cell = true;
        wait<true>(shared.template empty<kJ>(lane.next.slot), lane.next.parity ^ 1);
        bring<kEngine, kJ>(index.index, lane.next.slot);
        lane.next.advance();
      }
    }
  }

  /// Arrives for a copy of the engine; true for the one thread that starts it.
  template <bool kEngine, std::size_t kJ>
  __device__ __forceinline__ bool announce(SharedAt full, int bytes) {
    if constexpr (kEngine && kArrivesOnce<kJ>) {
      expected += bytes;
      return true;
    } else if constexpr (kHopper) {
      const bool starts = kEngine || thread == 0;
      if (starts)
        arrive_expecting(full, bytes);
      else
        arrive(full);
      return starts;
    } else {
      arrive(full);  // nothing is brought
      return false;
    }
  }

  /// Those rows that lie in the array: of the others nothing is said.
  template <bool kEngine, std::size_t kJ, class T, int kR, int kC, class Where>
  __device__ __forceinline__ void bring_lines(const Where& where, const T* array, SharedAt to,
                                              SharedAt full) {
    constexpr int kBytes = kC * static_cast<int>(sizeof(T));
    if constexpr (kR == 1 && kEngine && kArrivesOnce<kJ>) {
      const long long begin = where.row(0);
      if (begin < 0) return;
      expected += kBytes;
      copy_line(to, array + begin, kBytes, full);
      return;
    }
    int rows = kR;
    if (!where.whole()) {
      rows = 0;
      for (int r = 0; r < kR; ++r) rows += where.row(r) >= 0 ? 1 : 0;
    }
    if (!announce<kEngine, kJ>(full, rows * kBytes)) return;
#pragma unroll 1
    for (int r = 0; r < kR; ++r) {
      const long long begin = where.row(r);
      if (begin >= 0) copy_line(to + r * kBytes, array + begin, kBytes, full);
    }
  }

  template <bool kEngine, std::size_t kJ>
  __device__ __forceinline__ void bring(const std::int64_t* index, unsigned slot) {
    using T = typename Of<kJ>::T;
    constexpr int kR = Of<kJ>::kR;
    constexpr int kC = Of<kJ>::kC;
    const auto& op = std::get<kJ>(shared.spec.operands);
    const auto where = region(op.block, op.shape, index);
    using Box = PanelBox<T, kR, kC, std::remove_cvref_t<decltype(op.block)>>;
    const auto& arguments = shared.arguments;
    const SharedAt to = shared.template tile_at<kJ>(slot);
    const SharedAt full = shared.template full<kJ>(slot);
    const T* const array = static_cast<const T*>(arguments.array[kJ]);
    if constexpr (!kHopper) {
      if constexpr (Of<kJ>::kChunks) {
        if (arguments.is_mapped(kJ) && (zero_padded(op) || where.whole())) {
          const ChunkedArray& from = arguments.map[kJ];
          copy_chunks<kProducers, T, kR, kC>(to, thread,
                                             region(op.block, op.shape, index, from.row_elems),
                                             static_cast<const T*>(from.array));
          arrive_when_copied(full);
          return;
        }
      }
    } else if constexpr (Of<kJ>::kLine) {
      if (kEngine || (where.columns() == kC && where.rows_aligned(array, 16) &&
                      (!op.padded || where.whole()))) {
        bring_lines<kEngine, kJ, T, kR, kC>(where, array, to, full);
        return;
      }
    } else if constexpr (Box::kMappable) {
      if (kEngine || (arguments.is_mapped(kJ) && (zero_padded(op) || where.whole()))) {
        if (announce<kEngine, kJ>(full, Box::kBytes))
          copy_box<Box>(to, arguments.map[kJ], where.start, full, op.once);
        return;
      }
    }
    if constexpr (kEngine) return;  // by one of the branches above
    const T pad = convert<T>(op.padded ? op.pad_value : 0.0);
    if constexpr (kIsPacked<T>) {
      unpack_rows<kProducers, T, kR, kC>(
          shared.template tile<kJ>(slot), thread, where.columns(),
          [&](int r) { return where.row(r); }, array, pad);
    } else {
      // Beside products threads that fetch have few registers.
      constexpr int kAtATime = SpecTraits<S>::Layout::kTensorCores ? 1 : 2;
      copy_rows<kProducers, kAtATime, T, kR, kC>(
          shared.template tile<kJ>(slot), thread, kR, where.columns(),
          [&](int r) {
            const long long offset = where.row(r);
            return offset < 0 ? nullptr : array + offset;
          },
          &pad);
    }
    fence_async_proxy();
    arrive(full);
  }
};

/// Where an output lies, worked out where it is stored: before a cell's steps it would take
/// registers through all of them. (Where wgmma multiplies it does, and there are some to spare.)
template <class G, class Op>
struct RegionOfStep {
  const Op& op;
  const Cursor<G>& step;
  __device__ __forceinline__ auto operator()() const {
    int here[G::kRank];
#pragma unroll
    for (int d = 0; d < G::kRank; ++d) {
      here[d] = step.ids[d];
      asm volatile("" : "+r"(here[d]));  // nvcc does not know that it is the same in every step
    }
    const auto index = with_ids<G, G::kRank>(op.map, here);
    return region(op.block, op.shape, index.index);
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
  static constexpr int kGroups = SpecTraits<S>::kGroups;

  struct Nothing {};
  struct Phases {
    unsigned bits = 0;
  };
  template <std::size_t kJ>
  using Own =
      OwnElements<std::conditional_t<Of<kJ>::kSmem, typename Of<kJ>::T, int>, Of<kJ>::kCount>;
  template <std::size_t kJ>
  using State = std::conditional_t<
      Of<kJ>::kIn && !Of<kJ>::kEveryStep, Lane<SpecTraits<S>::template kSlots<kJ>>,
      std::conditional_t<Of<kJ>::kAccum, RegTile<Th, typename Of<kJ>::T, Of<kJ>::kR, Of<kJ>::kC>,
                         std::conditional_t<Of<kJ>::kDmaSem, Phases,
                                            std::conditional_t<Of<kJ>::kSmem || Of<kJ>::kOwnSem,
                                                               Own<kJ>, Nothing>>>>;
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
  CellRing cells;
  std::tuple<State<kI>...> state;
  EveryStep<SpecTraits<S>::kStages.of_step, kGroups> every_step{};

  __device__ __forceinline__ void run() {
    if constexpr (kGroups > 1) every_step.group = static_cast<unsigned>(Th::group());
    for (;;) {
      const int cell = cells.take(shared.leader);
      if (cell < 0) return;
      if constexpr (kGroups > 1) {
        Cursor<G> at(shared.spec.grid, cell, static_cast<int>(every_step.group));
        if (!at.alive) __trap();  // the other groups would wait for its part
        for (; at.alive; at.advance_in_run(shared.spec.grid)) step_at(at);
        (leave<kI>(), ...);
        continue;
      }
      [[maybe_unused]] int step = 0;
      for (Cursor<G> at(shared.spec.grid, cell); at.alive; at.advance(shared.spec.grid)) {
        step_at(at);
        if constexpr (kKeepsChecksums) {
          if (step < shared.arguments.steps.steps) {
            StepRow* row = shared.arguments.steps.rows +
                           (static_cast<long long>(cell) * shared.arguments.steps.steps + step) *
                               SpecTraits<S>::kAccums;
            (keep_checksum<kI>(at, row), ...);
          }
          ++step;
        }
      }
      (leave<kI>(), ...);
    }
  }

 private:
  __device__ __forceinline__ void step_at(const Cursor<G>& at) {
    (turn<kI>(at), ...);
    (await<kI>(), ...);
    auto env = env_at(at);
    call(env, at, std::make_integer_sequence<int, kPassed>{});
    (leave_step<kI>(), ...);
  }
  /// Into a step's next row.
  template <std::size_t kJ>
  __device__ __forceinline__ void keep_checksum(const Cursor<G>& at, StepRow*& row) {
    if constexpr (Of<kJ>::kAccum) {
      atomicAdd(&row->checksum, checksum_held(std::get<kJ>(state)));
      if (threadIdx.x == 0) {
        row->used = 1;
        for (int d = 0; d < G::kRank; ++d) row->ids[d] = at.ids[d];
      }
      ++row;
    }
  }
  /// Gives back the block of the step before if this one's is another.
  template <std::size_t kJ>
  __device__ __forceinline__ void turn(const Cursor<G>& step) {
    if constexpr (Of<kJ>::kIn && !Of<kJ>::kEveryStep) {
      const auto& op = std::get<kJ>(shared.spec.operands);
      auto& lane = std::get<kJ>(state);
      lane.turns = op.present && (Of<kJ>::kArbitraryIndex || !lane.in_cell) &&
                   lane.moves(with_ids<G, G::kRank>(op.map, step.ids));
      if (lane.turns) leave<kJ>();
    }
  }
  /// Waits for the block of a step.
  template <std::size_t kJ>
  __device__ __forceinline__ void await() {
    if constexpr (kJ == SpecTraits<S>::kFirstEveryStep) {
      wait(shared.template full<kJ>(every_step.slot()), every_step.ring.parity);
    } else if constexpr (Of<kJ>::kIn && !Of<kJ>::kEveryStep) {
      auto& lane = std::get<kJ>(state);
      if (!lane.turns) return;
      lane.in_cell = true;
      wait(shared.template full<kJ>(lane.next.slot), lane.next.parity);
      lane.held = lane.next.slot;
      lane.next.advance();
    }
  }
  template <std::size_t kJ>
  __device__ __forceinline__ void leave() {
    if constexpr (Of<kJ>::kIn && !Of<kJ>::kEveryStep) {
      auto& lane = std::get<kJ>(state);
      if (!lane.in_cell) return;
      lane.in_cell = false;
      give_back(shared.template empty<kJ>(lane.held));
    }
  }
  /// Gives back the blocks that only this step has.
  template <std::size_t kJ>
  __device__ __forceinline__ void leave_step() {
    if constexpr (kJ == SpecTraits<S>::kFirstEveryStep) {
      give_back(shared.template empty<kJ>(every_step.slot()));
      every_step.ring.advance();
    }
  }
  __device__ __forceinline__ void give_back(SharedAt empty) const {
    __syncwarp();
    if (shared.leader || shared.all_give_back()) arrive(empty);
  }
  __device__ __forceinline__ auto env_at(const Cursor<G>& at) const {
    using Traits = SpecTraits<S>;
    const Env<G, Th, kScopeBytes<S>> env{&at,
                                         {Traits::kScopeAt, Traits::kScopeAt + kScopeBytes<S>}};
    if constexpr (kOnPeers<S>)
      return PeerEnv<G, Th, kScopeBytes<S>>{env, &shared.arguments.peers};
    else if constexpr (kGroups > 1)
      return RunsEnv<G, Th, kScopeBytes<S>, Traits::kExchangeAt>{env};
    else
      return env;
  }
  template <class E, int... kN>
  __device__ __forceinline__ void call(E& env, const Cursor<G>& at,
                                       std::integer_sequence<int, kN...>) {
    shared.kernel(env, ref<passed(kN)>(at)...);
  }
  template <std::size_t kJ>
  __device__ __forceinline__ auto ref(const Cursor<G>& step) {
    using Tr = Of<kJ>;
    using T = typename Tr::T;
    const auto& op = std::get<kJ>(shared.spec.operands);
    using Op = std::remove_cvref_t<decltype(op)>;
    if constexpr (Tr::kIn) {
      unsigned slot = every_step.slot();
      if constexpr (!Tr::kEveryStep) slot = std::get<kJ>(state).held;
      using Ref = InRef<Th, T, Tr::kR, Tr::kC>;
      const Ref ref{{}, shared.template tile<kJ>(slot), shared.template tile_at<kJ>(slot)};
      if constexpr (Tr::kPresence == Presence::by_type)
        return AskedRef<Ref, true>{ref};
      else if constexpr (Tr::kPeers)
        return stacked(PeerInRef<Th, T, Tr::kR, Tr::kC>{ref}, typename Tr::Leading{});
      else
        return stacked(ref, typename Tr::Leading{});
    } else if constexpr (Tr::kAbsent) {
      using Block = decltype(Tr::Op::block);
      return AskedRef<InRef<Th, T, decltype(block_rows(std::declval<Block>()))::value,
                            decltype(block_cols(std::declval<Block>()))::value>,
                      false>{};
    } else if constexpr (Tr::kOut) {
      const auto where = [&] {
        if constexpr (kHopper) {
          const auto index = with_ids<G, G::kRank>(op.map, step.ids);
          return region(op.block, op.shape, index.index);
        } else {
          return RegionOfStep<G, Op>{op, step};
        }
      }();
      const OutRef<Th, T, Tr::kR, Tr::kC, std::remove_const_t<decltype(where)>> ref{
          {}, static_cast<T*>(shared.arguments.array[kJ]), where};
      return stacked(ref, typename Tr::Leading{});
    } else if constexpr (Tr::kAccum) {
      return AccumRef<Th, T, Tr::kR, Tr::kC>{&std::get<kJ>(state)};
    } else if constexpr (Tr::kSmem) {
      return SmemRef<Th, T, Tr::kCount>{std::get<kJ>(state).elem};
    } else if constexpr (Tr::kOwnSem) {
      return OwnSems{std::get<kJ>(state).elem};
    } else if constexpr (Tr::kPeers) {
      return peer_ref<kJ>(op);
    } else if constexpr (Tr::kVmem) {
      unsigned first = 0;
      if constexpr (kGroups > 1) first = every_step.group * Tr::kCount;
      return VmemRef<Th, T, Tr::kR, Tr::kC, Tr::kCount>{{},
                                                        shared.template tile<kJ>(first),
                                                        shared.template tile_at<kJ>(first),
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
          LeadingDims(op.shape),
          static_cast<int>(op.shape.elems() / (pitch > 0 ? pitch : 1)),
          static_cast<int>(pitch)};
    } else {
      static_assert(Tr::kCount <= 32, "at most 32 semaphores per operand");
      return SemsRef{shared.template barriers<kJ>(), &std::get<kJ>(state).bits};
    }
  }
  /// What lies in device memory.
  template <std::size_t kJ, class Op>
  __device__ __forceinline__ auto peer_ref(const Op& op) const {
    using Tr = Of<kJ>;
    using T = typename Tr::T;
    constexpr int kOperand = static_cast<int>(kJ);
    const Peers& peers = shared.arguments.peers;
    T* const data = static_cast<T*>(shared.arguments.array[kJ]);
    if constexpr (Tr::kVmem) {
      return PeerVmemRef<Th, T, Tr::kR, Tr::kC, Tr::kCount>{{}, data, kOperand};
    } else if constexpr (Tr::kHbm) {
      const int columns = static_cast<int>(op.shape[op.shape.rank - 1]);
      return PeerArray<T, Tr::role() != Role::hbm_in>{
          data,
          columns,
          kOperand,
          LeadingDims(op.shape),
          static_cast<int>(op.shape.elems() / (columns > 0 ? columns : 1)),
          columns};
    } else {
      return PeerSems<Th>{&peers, kOperand};
    }
  }
};

/// kOperands and kMaps are the spec's: the host's stub cannot name a spec.
template <class K, int kOperands, int kMaps, int... kTiles>
__global__ void __launch_bounds__(SpecTraits<SpecOf<K, kTiles...>>::kComputing + kProducers,
                                  SpecTraits<SpecOf<K, kTiles...>>::kLaunch.at_least)
    run_cells(const __grid_constant__ K kernel,
              const __grid_constant__ Arguments<kOperands, kMaps> arguments) {
  using S = SpecOf<K, kTiles...>;
  constexpr int kComputing = SpecTraits<S>::kComputing;
  constexpr cta::Registers kRegisters = SpecTraits<S>::kRegisters;
  extern __shared__ __align__(1024) unsigned char memory[];
  const S spec = spec_of<K, kTiles...>(kernel);
  const auto begin = static_cast<SharedAt>(__cvta_generic_to_shared(memory));
  unsigned char* const ours = kHopper ? memory : memory + (kSharedBegin - begin);
  const Shared<K, S> shared{kernel, spec, arguments, ours, threadIdx.x % 32 == 0};
  if (threadIdx.x == 0) {
    if (kHopper ? begin != kSharedBegin : begin > kSharedBegin) __trap();
    shared.init(OperandIndices<S>{});
    if constexpr (kHopper) {
#pragma unroll
      for (int i = 0; i < kMaps; ++i) {
        if (arguments.is_mapped(i)) fetch_map(arguments.map[i]);
      }
    }
    if constexpr (kHopper) ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    fence_async_proxy();
  }
  if constexpr (kStartsEarly<S>) {
    // The next kernel's CTAs may come where there is room for them.
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= kComputing) {
    if constexpr (kRegisters.move)
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(cta::Registers::kProducing));
    const int thread = static_cast<int>(threadIdx.x) - kComputing;
    if (thread < shared.producers()) Producer<K, S>{shared, thread, shared.cells(), {}}.run();
  } else {
    if constexpr (kRegisters.move)
      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters.computing));
    wait_for_kernel_before<S>();
    Consumer<K, S>{shared, shared.cells(), {}}.run();
  }
}

}  // namespace tessera::cuda
