// A body as a CUDA kernel: one CTA per parallel cell, a loop over its arbitrary steps.
//
// An input block whose index map uses no arbitrary dimension is fetched once; any other goes
// through kStages slots, fetched up to kStages - 1 steps ahead, when its index changes.
// Accumulators are registers, other scratch is shared memory. As many stages as the spec's blocks
// leave room for, at most three.
#pragma once

#include "cuda/cell.hpp"
#include "cuda/refs.hpp"

namespace tessera::cuda {

inline constexpr int kMaxOperands = 16;
/// Dynamic shared memory of a CTA on sm_90 less 16 KiB for what dot() stages.
inline constexpr int kSharedBytes = 227 * 1024 - 16 * 1024;
inline constexpr int kMostStages = 3;

struct Pointers {
  void* array[kMaxOperands];
};

/// What operand kI of a spec needs.
template <class S, std::size_t kI>
struct OperandTraits {
  using G = typename S::GridType;
  using Op = std::tuple_element_t<kI, decltype(S::operands)>;
  static constexpr bool kPassed = Op::kPassed;
  using T = typename Op::Element;

  static constexpr Role role() {
    if constexpr (kPassed)
      return Op::kRole;
    else
      return Role::sem;
  }
  static constexpr bool kIn = kPassed && role() == Role::in;
  static constexpr bool kOut = kPassed && role() == Role::out;
  static constexpr bool kAccum = kPassed && role() == Role::accum;
  static constexpr bool kVmem = kPassed && role() == Role::vmem;
  static constexpr bool kHbm = kPassed && in_hbm(role());
  static constexpr bool kDmaSem = kPassed && role() == Role::dma_sem;
  static_assert(!kPassed || kIn || kOut || kAccum || kVmem || kHbm || kDmaSem,
                "regular semaphores and scratch in SMEM are not mapped to CUDA yet");
  static constexpr bool kBlock = kIn || kOut || kAccum || kVmem;

  static constexpr int extent(bool rows) {
    if constexpr (kBlock) {
      using Block = decltype(Op::block);
      return rows ? decltype(block_rows(std::declval<Block>()))::value
                  : decltype(block_cols(std::declval<Block>()))::value;
    } else {
      return 1;
    }
  }
  static constexpr int kR = extent(true);
  static constexpr int kC = extent(false);
  static constexpr bool arbitrary_index() {
    if constexpr (kIn) {
      using Index = decltype(with_ids<G, G::kRank>(std::declval<Op>().map,
                                                   std::declval<const int(&)[G::kRank]>()));
      return Index::kArbitraryIndex;
    } else {
      return false;
    }
  }
  static constexpr int slots(int stages) { return arbitrary_index() ? stages : 1; }
  /// First extent of [slots, rows, cols] scratch, or of semaphores.
  static constexpr int first_extent() {
    if constexpr (kVmem || kDmaSem) {
      using E = std::remove_cvref_t<decltype(std::get<0>(std::declval<Op>().block.extents))>;
      constexpr bool kSlots =
          kDmaSem || std::tuple_size_v<decltype(std::declval<Op>().block.extents)> == 3;
      return kSlots ? E::value : 1;
    } else {
      return 1;
    }
  }
  static constexpr int bytes(int stages) {
    if (kIn || kVmem) {
      const int block = kR * kPitchOf<T, kC> * static_cast<int>(sizeof(T));
      return (slots(stages) * block + 127) / 128 * 128;
    }
    return kDmaSem ? (first_extent() * 8 + 127) / 128 * 128 : 0;
  }
};

template <class S, class = std::make_index_sequence<std::tuple_size_v<decltype(S::operands)>>>
struct SharedLayout;
template <class S, std::size_t... kI>
struct SharedLayout<S, std::index_sequence<kI...>> {
  static constexpr int bytes_with(int stages) {
    return (0 + ... + OperandTraits<S, kI>::bytes(stages));
  }
  static constexpr int kStages = [] {
    for (int s = kMostStages; s > 1; --s) {
      if (bytes_with(s) <= kSharedBytes) return s;
    }
    return 1;
  }();
  static constexpr int kBytes = bytes_with(kStages);
  static constexpr int offset(std::size_t operand) {
    int at = 0;
    ((at += kI < operand ? OperandTraits<S, kI>::bytes(kStages) : 0), ...);
    return at;
  }
};

template <class K, int... kTiles>
using SpecOf = decltype(std::declval<const K&>().spec(Int<kTiles>{}...));

/// A cell: what its operands hold from step to step, and the loop.
template <class Th, class K, class S,
          class = std::make_index_sequence<std::tuple_size_v<decltype(S::operands)>>>
struct Cell;
template <class Th, class K, class S, std::size_t... kI>
struct Cell<Th, K, S, std::index_sequence<kI...>> {
  using G = typename S::GridType;
  using Layout = SharedLayout<S>;
  static constexpr int kStages = Layout::kStages;
  template <std::size_t kJ>
  using Traits = OperandTraits<S, kJ>;

  /// Fetches asked for and used, and the index of the last one asked for and used.
  struct Lane {
    std::int64_t asked_index[kMaxRank];
    std::int64_t used_index[kMaxRank];
    int asked = 0;
    int used = 0;
  };
  struct Nothing {};
  /// The operands that the body gets.
  static constexpr int kPassed = (0 + ... + (Traits<kI>::kPassed ? 1 : 0));
  static constexpr std::size_t passed(int n) {
    constexpr bool is[] = {Traits<kI>::kPassed...};
    std::size_t i = 0;
    for (;; ++i) {
      if (is[i] && n-- == 0) return i;
    }
  }
  struct Phases {
    unsigned of[32] = {};
  };
  template <std::size_t kJ>
  using State = std::conditional_t<
      Traits<kJ>::kIn, Lane,
      std::conditional_t<Traits<kJ>::kAccum,
                         RegTile<Th, typename Traits<kJ>::T, Traits<kJ>::kR, Traits<kJ>::kC>,
                         std::conditional_t<Traits<kJ>::kDmaSem, Phases, Nothing>>>;

  const K& kernel;
  const S& spec;
  const Pointers& pointers;
  unsigned char* shared;
  std::tuple<State<kI>...> state;

  __device__ __forceinline__ Cell(const K& k, const S& s, const Pointers& p, unsigned char* memory)
      : kernel(k), spec(s), pointers(p), shared(memory) {
    (init<kI>(), ...);
    __syncthreads();
  }

  __device__ __forceinline__ void run(long long cell) {
    Cursor<G> at(spec.grid, cell);
    Cursor<G> ahead = at;
    int issued = 0;
    const auto issue = [&] {
      if (ahead.alive) {
        (fetch<kI>(ahead), ...);
        ahead.advance(spec.grid);
      }
      __pipeline_commit();
      ++issued;
    };
    if constexpr (kStages > 1) {
      for (int s = 0; s < kStages - 1; ++s) issue();
    }
    for (; at.alive; at.advance(spec.grid)) {
      if constexpr (kStages > 1) {
        __pipeline_wait_prior(kStages - 2);
        __syncthreads();
        issue();
      } else {
        __syncthreads();
        issue();
        __pipeline_wait_prior(0);
        __syncthreads();
      }
      (use<kI>(at), ...);
      Env<G> env{&at};
      call(env, at, std::make_integer_sequence<int, kPassed>{});
    }
    __pipeline_wait_prior(0);
  }

 private:
  template <std::size_t kJ>
  __device__ __forceinline__ typename Traits<kJ>::T* memory(int slot) {
    using T = typename Traits<kJ>::T;
    return reinterpret_cast<T*>(shared + Layout::offset(kJ)) +
           slot * Traits<kJ>::kR * kPitchOf<T, Traits<kJ>::kC>;
  }
  template <std::size_t kJ>
  __device__ __forceinline__ std::uint64_t* barriers() {
    return reinterpret_cast<std::uint64_t*>(shared + Layout::offset(kJ));
  }
  template <std::size_t kJ>
  __device__ __forceinline__ void init() {
    if constexpr (Traits<kJ>::kDmaSem) {
      if (static_cast<int>(threadIdx.x) < Traits<kJ>::first_extent())
        init_semaphore<Th>(barriers<kJ>() + threadIdx.x);
    }
  }
  static __device__ __forceinline__ bool moved(const std::int64_t* index, std::int64_t* before,
                                               bool first, int rank) {
    bool differs = first;
#pragma unroll
    for (int d = 0; d < rank; ++d) {
      differs = differs || index[d] != before[d];
      before[d] = index[d];
    }
    return differs;
  }
  template <std::size_t kJ>
  __device__ __forceinline__ void fetch(const Cursor<G>& step) {
    if constexpr (Traits<kJ>::kIn) {
      const auto& op = std::get<kJ>(spec.operands);
      if (!op.present) return;
      auto& lane = std::get<kJ>(state);
      if constexpr (!Traits<kJ>::arbitrary_index()) {
        if (lane.asked > 0) return;
      }
      const auto index = with_ids<G, G::kRank>(op.map, step.ids);
      constexpr int kRank = decltype(index)::kRank;
      if (!moved(index.index, lane.asked_index, lane.asked == 0, kRank)) return;
      using T = typename Traits<kJ>::T;
      const auto where = region(op.block, op.shape, index.index);
      const T* const array = static_cast<const T*>(pointers.array[kJ]);
      fetch_rows<Th, Traits<kJ>::kR, Traits<kJ>::kC, kPitchOf<T, Traits<kJ>::kC>>(
          memory<kJ>(lane.asked % Traits<kJ>::slots(kStages)),
          [&](int r) {
            const long long offset = where.row(r);
            return offset < 0 ? nullptr : array + offset;
          },
          where.columns(), convert<T>(op.padded ? op.pad_value : 0.0));
      ++lane.asked;
    }
  }
  template <std::size_t kJ>
  __device__ __forceinline__ void use(const Cursor<G>& step) {
    if constexpr (Traits<kJ>::kIn) {
      const auto& op = std::get<kJ>(spec.operands);
      auto& lane = std::get<kJ>(state);
      if constexpr (!Traits<kJ>::arbitrary_index()) {
        lane.used = 1;
      } else {
        const auto index = with_ids<G, G::kRank>(op.map, step.ids);
        if (moved(index.index, lane.used_index, lane.used == 0, decltype(index)::kRank))
          ++lane.used;
      }
    }
  }
  template <int... kN>
  __device__ __forceinline__ void call(Env<G>& env, const Cursor<G>& at,
                                       std::integer_sequence<int, kN...>) {
    kernel(env, ref<passed(kN)>(at)...);
  }
  template <std::size_t kJ>
  __device__ __forceinline__ auto ref(const Cursor<G>& step) {
    using Tr = Traits<kJ>;
    using T = typename Tr::T;
    if constexpr (Tr::kIn) {
      const int slot = (std::get<kJ>(state).used - 1) % Tr::slots(kStages);
      return InRef<Th, T, Tr::kR, Tr::kC>{memory<kJ>(slot)};
    } else if constexpr (Tr::kOut) {
      const auto& op = std::get<kJ>(spec.operands);
      const auto index = with_ids<G, G::kRank>(op.map, step.ids);
      const auto where = region(op.block, op.shape, index.index);
      return OutRef<Th, T, Tr::kR, Tr::kC, std::remove_const_t<decltype(where)>>{
          static_cast<T*>(pointers.array[kJ]), where};
    } else if constexpr (Tr::kAccum) {
      return AccumRef<Th, T, Tr::kR, Tr::kC>{&std::get<kJ>(state)};
    } else if constexpr (Tr::kVmem) {
      return VmemRef<Th, T, Tr::kR, Tr::kC, Tr::first_extent()>{memory<kJ>(0)};
    } else if constexpr (Tr::kHbm) {
      const auto& op = std::get<kJ>(spec.operands);
      const int last = op.shape.rank - 1;
      const long long pitch = op.shape[last];
      return HbmPart<T, Tr::role() != Role::hbm_in>{
          static_cast<T*>(pointers.array[kJ]), pitch,
          static_cast<int>(op.shape.elems() / (pitch > 0 ? pitch : 1)), static_cast<int>(pitch)};
    } else {
      static_assert(Tr::first_extent() <= 32, "at most 32 semaphores per operand");
      return SemsRef{barriers<kJ>(), std::get<kJ>(state).of};
    }
  }
};

template <class Th, class K, int... kTiles>
__global__ void __launch_bounds__(Th::kThreads)
    run_cells(const __grid_constant__ K kernel, const __grid_constant__ Pointers pointers) {
  extern __shared__ __align__(128) unsigned char shared[];
  const auto spec = kernel.spec(Int<kTiles>{}...);
  Cell<Th, K, std::remove_const_t<decltype(spec)>> cell(kernel, spec, pointers, shared);
  cell.run(blockIdx.x);
}

}  // namespace tessera::cuda
