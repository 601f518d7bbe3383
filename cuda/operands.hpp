// What the operands of a spec need on the device: extents, slots and places in shared memory, and
// the layout of the threads that compute.
#pragma once

#include "cuda/peers.hpp"

namespace tessera::cuda {

/// Dynamic shared memory of a CTA on sm_90.
inline constexpr int kSharedBytes = 227 * 1024;
inline constexpr int kMostStages = 8;

/// The spec of a kernel that runs on several devices.
template <class S>
struct OnPeers : S {};
template <class S>
inline constexpr bool kOnPeers = false;
template <class S>
inline constexpr bool kOnPeers<OnPeers<S>> = true;

template <class K, int... kTiles>
TESSERA_FN constexpr auto spec_of(const K& kernel) {
  const auto spec = kernel.spec(Int<kTiles>{}...);
  if constexpr (requires { kernel.devices; })
    return OnPeers<std::remove_const_t<decltype(spec)>>{spec};
  else
    return spec;
}
template <class K, int... kTiles>
using SpecOf = decltype(spec_of<K, kTiles...>(std::declval<const K&>()));

template <class S>
using OperandIndices = std::make_index_sequence<std::tuple_size_v<decltype(S::operands)>>;

/// How many slots inputs have: those that arbitrary steps walk over, and those of a whole cell.
struct Stages {
  int of_step = 1;
  int of_cell = 1;
};

/// Stands for the id of the innermost arbitrary dimension: an index map that gives it back
/// unchanged names another block at every step.
struct InnermostId {
  int value = 0;
  constexpr operator int() const { return value; }  // NOLINT(google-explicit-constructor)
};
template <class... I>
constexpr bool has_innermost(const BlockIndex<I...>&) {
  return (std::is_same_v<I, InnermostId> || ...);
}
template <class Map, std::size_t... kD>
constexpr auto innermost_in(const Map& map, std::index_sequence<kD...>)
    -> std::bool_constant<has_innermost(decltype(map(Id<(kD, false)>{}..., InnermostId{})){})> {
  return {};
}

/// Operand kI of a spec.
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
  /// Several devices reach scratch and semaphores: they lie in device memory (cuda/peers.hpp).
  static constexpr bool kPeers = kOnPeers<S>;
  static constexpr bool kSem = kPassed && is_semaphore(role());
  static constexpr bool kDmaSem = kSem && role() == Role::dma_sem && !kPeers;
  static_assert(
      !kPassed || kIn || kOut || kAccum || kVmem || kHbm || kDmaSem || (kSem && kPeers),
      "regular semaphores of one device, and scratch in SMEM, are not mapped to CUDA yet");
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
  /// First extent of [slots, rows, cols] scratch, or of semaphores.
  static constexpr int kCount = [] {
    if constexpr (kDmaSem) {
      return std::tuple_element_t<0, decltype(std::declval<Op>().block.extents)>::value;
    } else if constexpr (kVmem) {
      using Extents = decltype(std::declval<Op>().block.extents);
      if constexpr (std::tuple_size_v<Extents> == 3)
        return std::tuple_element_t<0, Extents>::value;
      else
        return 1;
    } else {
      return 1;
    }
  }();
  /// A tile of it in shared memory.
  using Place = Packing<T, kBlock ? kR / kCount : 1, kC>;

  /// An input whose block is one run of bytes that the copy engine takes without a tensor map.
  static constexpr bool kLine = kIn && kR == 1 && kC * Place::kSize % 16 == 0;

  static constexpr bool kArbitraryIndex = [] {
    if constexpr (kIn) {
      using Index = decltype(with_ids<G, G::kRank>(std::declval<Op>().map,
                                                   std::declval<const int(&)[G::kRank]>()));
      return Index::kArbitraryIndex;
    } else {
      return false;
    }
  }();
  /// Every step of a cell has another block of it. With several arbitrary dimensions the innermost
  /// may have one step only.
  static constexpr bool kEveryStep = [] {
    if constexpr (kIn && G::kRank == G::kParallel + 1) {
      return decltype(innermost_in(std::declval<Op>().map,
                                   std::make_index_sequence<G::kParallel>{}))::value;
    } else {
      return false;
    }
  }();
  static constexpr int slots(Stages stages) {
    return !kIn ? kCount : kArbitraryIndex ? stages.of_step : stages.of_cell;
  }
  static constexpr int bytes(Stages stages) {
    if (kIn || (kVmem && !kPeers)) return slots(stages) * Place::kBytes;
    return 0;
  }
  /// mbarriers: full and empty of each slot of an input, one of a semaphore.
  static constexpr int barriers(Stages stages) {
    return kIn ? 2 * slots(stages) : kDmaSem ? kCount : 0;
  }
  /// True if wgmma can read it, or it is no operand of a product: 16-bit floats in panels, 16 or
  /// more k's. A block of one row or column is none.
  static constexpr bool kForTensorCores = !(kIn || kVmem) || kR == 1 || kC == 1 ||
                                          std::is_integral_v<T> || std::is_same_v<T, float> ||
                                          (kIsHalf<T> && Place::kPanelled && kR / kCount % 16 == 0);
};

template <class S, class = OperandIndices<S>>
struct SpecTraits;
template <class S, std::size_t... kI>
struct SpecTraits<S, std::index_sequence<kI...>> {
  template <std::size_t kJ>
  using Of = OperandTraits<S, kJ>;
  using G = typename S::GridType;
  static constexpr int kOperands = sizeof...(kI);
  static constexpr bool kHasSteps = G::kRank > G::kParallel;

  static constexpr int count_before(std::size_t end, const bool (&is)[sizeof...(kI)]) {
    int n = 0;
    for (std::size_t i = 0; i < end; ++i) n += is[i] ? 1 : 0;
    return n;
  }
  static constexpr int vmem_before(std::size_t i) {
    const bool is[] = {(Of<kI>::kVmem && !Of<kI>::kPeers)...};
    return count_before(i, is);
  }
  static constexpr int hbm_before(std::size_t i) {
    const bool is[] = {Of<kI>::kHbm...};
    return count_before(i, is);
  }
  static constexpr int kVmems = vmem_before(kOperands);
  static constexpr int kAccums = (0 + ... + (Of<kI>::kAccum ? 1 : 0));
  /// A tensor map per operand, used by inputs, then one for each pair of HBM and VMEM operands.
  static constexpr int kMaps = kOperands + hbm_before(kOperands) * kVmems;
  static constexpr int pair_map(std::size_t hbm) { return kOperands + hbm_before(hbm) * kVmems; }

  /// Inputs with a new block at every step come and go together: they share the barriers of the
  /// first of them.
  static constexpr int kEverySteps = (0 + ... + (Of<kI>::kEveryStep ? 1 : 0));
  static constexpr std::size_t kFirstEveryStep = [] {
    const bool is[] = {Of<kI>::kEveryStep...};
    std::size_t i = 0;
    while (i < sizeof...(kI) && !is[i]) ++i;
    return i;
  }();

  // Threads.
  /// Rows and elements of the largest accumulator: what tensor cores would sum into.
  static constexpr int kSumRows = largest((Of<kI>::kAccum && Of<kI>::kC > 1 ? Of<kI>::kR : 0)...);
  static constexpr int kSumElems =
      largest((Of<kI>::kAccum && Of<kI>::kC > 1 ? Of<kI>::kR * Of<kI>::kC : 0)...);
  /// Tensor cores: an accumulator of 64 rows per warpgroup, operands of 16-bit floats in panels.
  static constexpr bool kTensorCores =
      !kOnPeers<S> && kSumElems > 1 && kSumRows % 64 == 0 && (Of<kI>::kForTensorCores && ...) &&
      ((!Of<kI>::kAccum || Of<kI>::kC == 1 || Of<kI>::kC % 64 == 0) && ...) &&
      (((Of<kI>::kIn || Of<kI>::kVmem) && kIsSmallFloat<typename Of<kI>::T>) || ...);
  /// As few warpgroups as hold a sum of at most 128 elements per thread; two where there can be.
  static constexpr int kWarpgroups = [] {
    for (int n = 2; n <= 4; ++n) {
      if (kSumRows % (64 * n) == 0 && kSumElems <= 128 * 128 * n) return n;
    }
    return 1;
  }();
  static constexpr int kElems =
      largest((Of<kI>::kAccum || Of<kI>::kOut    ? Of<kI>::kR * Of<kI>::kC
               : Of<kI>::kVmem && Of<kI>::kPeers ? Of<kI>::kR / Of<kI>::kCount * Of<kI>::kC
                                                 : 0)...);
  /// Beside a running statistic of rows, a body makes tiles as wide as an input has rows: scores.
  static constexpr int kStatisticRows =
      largest((Of<kI>::kAccum && Of<kI>::kC == 1 ? Of<kI>::kR : 1)...);
  static constexpr int kInRows = largest((Of<kI>::kIn ? Of<kI>::kR : 1)...);
  static constexpr int kMadeElems = kStatisticRows > 1 ? largest(kElems, kStatisticRows* kInRows)
                                                       : kElems;
  /// SIMT: as many threads as keep a register tile within 64 elements each, 128 to 512.
  static constexpr int kSimtThreads = [] {
    int threads = 128;
    while (threads < 512 && kMadeElems > 64 * threads) threads *= 2;
    return threads;
  }();
  static constexpr int kLongRow = 256;
  static constexpr bool kRowsAlone =
      largest(Of<kI>::kR...) == 1 && largest(Of<kI>::kC...) >= kLongRow;
  using Layout = std::conditional_t<kTensorCores, Warpgroups<kWarpgroups>,
                                    Threads<kSimtThreads, (kRowsAlone ? kSimtThreads : kHalfWarp)>>;

  // Shared memory: the tiles, then the barriers, then where the next cell is told.
  static constexpr int barriers_before(std::size_t i, Stages stages) {
    int n = 0;
    ((n += kI < i ? Of<kI>::barriers(stages) : 0), ...);
    return n;
  }
  static constexpr int tiles_before(std::size_t i, Stages stages) {
    int at = 0;
    const auto place = [&](std::size_t n, int bytes, int align) {
      if (n > i || (n == i && bytes == 0)) return;
      at = round_up(at, align);
      if (n < i) at += bytes;
    };
    (place(kI, Of<kI>::bytes(stages), Of<kI>::Place::kAlign), ...);
    return at;
  }
  static constexpr int kCellRing = 64;
  static constexpr int barriers_at(Stages stages) {
    return round_up(tiles_before(kOperands, stages), 128);
  }
  static constexpr int bytes_with(Stages stages) {
    return barriers_at(stages) + kBarrierBytes * barriers_before(kOperands, stages) + kCellRing;
  }
  static constexpr Stages kStages = [] {
    // A cell's inputs come while the cell before is computed, if two of each fit.
    for (int c = 2; c > 0; --c) {
      for (int s = kMostStages; s > 1; --s) {
        const Stages stages{s, kHasSteps ? c : s};
        if (bytes_with(stages) <= kSharedBytes) return stages;
      }
    }
    return Stages{};
  }();
  static constexpr int kBytes = bytes_with(kStages);
  static constexpr bool kFits = bytes_with({}) <= kSharedBytes;
  static constexpr int kBarriersAt = barriers_at(kStages);
  static constexpr int kCellRingAt =
      kBarriersAt + kBarrierBytes * barriers_before(kOperands, kStages);
};

}  // namespace tessera::cuda
