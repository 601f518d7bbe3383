// What the operands of a spec need on the device: the launch that sim/body/cta.hpp makes of their
// types, as constants, and the layout of the threads that compute.
#pragma once

#include "cuda/peers.hpp"

namespace tessera::cuda {

/// The spec of a kernel that runs on several devices.
template <class S>
struct OnPeers : S {};
template <class S>
inline constexpr bool kOnPeers = false;
template <class S>
inline constexpr bool kOnPeers<OnPeers<S>> = true;

/// The spec of a kernel that takes shared memory beyond its operands, because its threads exchange
/// elements or it makes scratch by run_scoped, or that does not multiply.
template <class S, bool kExchanges, int kScope, bool kMultiplies>
struct Taking : S {};
template <class S>
inline constexpr bool kExchanging = false;
template <class S, bool kExchanges, int kScope, bool kMultiplies>
inline constexpr bool kExchanging<Taking<S, kExchanges, kScope, kMultiplies>> = kExchanges;
template <class S>
inline constexpr int kScopeBytes = 0;
template <class S, bool kExchanges, int kScope, bool kMultiplies>
inline constexpr int kScopeBytes<Taking<S, kExchanges, kScope, kMultiplies>> = kScope;
template <class S>
inline constexpr bool kMultiplying = true;
template <class S, bool kExchanges, int kScope, bool kMultiplies>
inline constexpr bool kMultiplying<Taking<S, kExchanges, kScope, kMultiplies>> = kMultiplies;
template <class S, bool kExchanges, int kScope, bool kMultiplies>
inline constexpr bool kOnPeers<Taking<S, kExchanges, kScope, kMultiplies>> = kOnPeers<S>;

template <class K>
constexpr bool exchanges() {
  if constexpr (requires { K::exchanges; })
    return K::exchanges;
  else
    return false;
}
template <class K>
constexpr int scope_bytes() {
  if constexpr (requires { K::scope_bytes; })
    return K::scope_bytes;
  else
    return 0;
}
template <class K>
constexpr bool multiplies() {
  if constexpr (requires { K::multiplies; })
    return K::multiplies;
  else
    return true;
}
template <class K, int... kTiles>
TESSERA_FN constexpr auto spec_of(const K& kernel) {
  const auto spec = kernel.spec(Int<kTiles>{}...);
  using S = std::remove_const_t<decltype(spec)>;
  constexpr bool kTakes = exchanges<K>() || scope_bytes<K>() > 0 || !multiplies<K>();
  if constexpr (requires { kernel.devices; }) {
    if constexpr (kTakes)
      return Taking<OnPeers<S>, exchanges<K>(), scope_bytes<K>(), multiplies<K>()>{{spec}};
    else
      return OnPeers<S>{spec};
  } else if constexpr (kTakes) {
    return Taking<S, exchanges<K>(), scope_bytes<K>(), multiplies<K>()>{spec};
  } else {
    return spec;
  }
}
template <class K, int... kTiles>
using SpecOf = decltype(spec_of<K, kTiles...>(std::declval<const K&>()));

template <class S>
using OperandIndices = std::make_index_sequence<std::tuple_size_v<decltype(S::operands)>>;

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
constexpr auto innermost_in(std::index_sequence<kD...>)
    -> std::bool_constant<has_innermost(decltype(std::declval<Map>()(Id<(kD, false)>{}...,
                                                                     InnermostId{})){})> {
  return {};
}
/// Whether an index map depends on the id of dimension kOf, as far as types say. kD: all dimensions
/// but the innermost.
template <std::size_t kOf, class Map, std::size_t... kD>
constexpr auto depends_on(std::index_sequence<kD...>)
    -> std::bool_constant<decltype(std::declval<Map>()(
        Id<kD == kOf>{}..., Id<kOf == sizeof...(kD)>{}))::kArbitraryIndex> {
  return {};
}

/// Extents of a block's dims that the body sees, but for the last two.
template <class Block>
struct LeadingOf {
  using type = std::integer_sequence<int>;
};
template <class First, class... Rest>
struct LeadingOf<BlockDims<First, Rest...>> {
  static auto pick() {
    using Others = typename LeadingOf<BlockDims<Rest...>>::type;
    if constexpr (BlockDims<First, Rest...>::kKept < 3)
      return std::integer_sequence<int>{};
    else if constexpr (std::is_same_v<First, Squeezed>)
      return Others{};
    else
      return []<int... kOthers>(std::integer_sequence<int, kOthers...>) {
        return std::integer_sequence<int, First::value, kOthers...>{};
      }
    (Others{});
  }
  using type = decltype(pick());
};

/// Whether the last dim of a block is one that the body sees.
template <class... E>
constexpr bool ends_kept(const BlockDims<E...>*) {
  return detail::last_kept<E...>() == static_cast<int>(sizeof...(E)) - 1;
}

template <class Op, bool kHasOne>
struct BlockOf {
  using type = BlockDims<>;
};
template <class Op>
struct BlockOf<Op, true> {
  using type = decltype(Op::block);
};

/// Operand kI of a spec.
template <class S, std::size_t kI>
struct OperandTraits {
  using G = typename S::GridType;
  using Op = std::tuple_element_t<kI, decltype(S::operands)>;
  static constexpr bool kPassed = Op::kPassed;
  using T = typename Op::Element;
  static constexpr Presence kPresence = [] {
    if constexpr (kPassed)
      return Op::kPresence;
    else
      return Presence::of_run;
  }();
  /// An input that this instance does not have: the body gets a ref that says so.
  static constexpr bool kAbsent = kPresence == Presence::absent_by_type;

  static constexpr Role role() {
    if constexpr (kPassed)
      return Op::kRole;
    else
      return Role::smem;
  }
  static constexpr bool kIn = kPassed && !kAbsent && role() == Role::in;
  static constexpr bool kOut = kPassed && role() == Role::out;
  static constexpr bool kAccum = kPassed && role() == Role::accum;
  static constexpr bool kVmem = kPassed && role() == Role::vmem;
  static constexpr bool kHbm = kPassed && in_hbm(role());
  /// Several devices reach scratch and semaphores: they lie in device memory (cuda/peers.hpp).
  static constexpr bool kPeers = kOnPeers<S>;
  static constexpr bool kSem = kPassed && is_semaphore(role());
  static constexpr bool kDmaSem = kSem && role() == Role::dma_sem && !kPeers;
  /// What every thread has for itself: scratch in SMEM, and counts of semaphores that no other
  /// device signals.
  static constexpr bool kSmem = kPassed && role() == Role::smem;
  static constexpr bool kOwnSem = kSem && role() == Role::sem && !kPeers;
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
  using Leading = typename LeadingOf<typename BlockOf<Op, kIn || kOut>::type>::type;
  static constexpr int kR = extent(true);
  static constexpr int kC = extent(false);
  /// First extent of [slots, rows, cols] scratch, or of semaphores.
  static constexpr int kCount = [] {
    if constexpr (kDmaSem || kOwnSem || kSmem) {
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

  /// An input whose rows are runs of bytes that the copy engine takes without a tensor map.
  static constexpr bool kLine = kIn && !kIsPacked<T> &&
                                (kR == 1 || kC * Place::kSize > cta::kLongestPanelled) &&
                                kC * Place::kSize % 16 == 0 &&
                                ends_kept(static_cast<typename BlockOf<Op, kIn>::type*>(nullptr));

  /// An input whose rows are whole chunks of 16 bytes (copy_chunks in cuda/fetch.hpp).
  static constexpr bool kChunks = kIn && !kIsPacked<T> && Place::kBytes > 0 &&
                                  kC* Place::kSize % 16 == 0 &&
                                  ends_kept(static_cast<typename BlockOf<Op, kIn>::type*>(nullptr));

  static constexpr bool kArbitraryIndex = [] {
    if constexpr (kIn) {
      using Index = decltype(with_ids<G, G::kRank>(std::declval<Op>().map,
                                                   std::declval<const int(&)[G::kRank]>()));
      return Index::kArbitraryIndex;
    } else {
      return false;
    }
  }();
  /// A small block is brought at every step that may have another one: to find out costs more.
  static constexpr int kSmall = 2048;
  /// Every step of a cell has a block of its own: the index map gives back the innermost id, or
  /// depends on it and the block is small, and the other arbitrary ids have a part in it. (What it
  /// makes of them may be one block twice: that is brought again. Runs of a
  /// sum are of other steps each.)
  static constexpr bool kEveryStep = [] {
    if constexpr (kIn && (G::kRank > G::kParallel)) {
      return []<std::size_t... kD>(std::index_sequence<kD...> outer) {
        using Map = decltype(std::declval<Op>().map);
        constexpr bool kOthers = ((kD < G::kParallel || (G::kHasRuns && kD == G::kParallel) ||
                                   decltype(depends_on<kD, Map>(outer))::value) &&
                                  ...);
        return kOthers &&
               (decltype(innermost_in<Map>(outer))::value ||
                (Place::kBytes <= kSmall && decltype(depends_on<G::kRank - 1, Map>(outer))::value));
      }
      (std::make_index_sequence<G::kRank - 1>{});
    } else {
      return false;
    }
  }();
  static constexpr cta::Operand kCta =
      kAbsent ? cta::Operand{}
              : cta::Operand{role(), kDTypeOf<T>, kR, kC, kCount, !kArbitraryIndex};
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

  // The launch.
  static constexpr cta::Operand kList[] = {Of<kI>::kCta...};
  /// Runs that groups of warps may do side by side. Checksums of steps are kept in their order.
  static constexpr int kRuns = [] {
    if constexpr (G::kHasRuns && G::kRank == G::kParallel + 2 && !kKeepsChecksums)
      return decltype(std::tuple_element_t<G::kParallel, decltype(G::dims)>::hi)::value;
    else
      return 0;
  }();
  static constexpr cta::Operands kAll =
      cta::with_room_for_runs({kList, kOperands, kHasSteps, kOnPeers<S>, kExchanging<S>,
                               kScopeBytes<S>, kMultiplying<S>, kRuns},
                              kSm);
  static constexpr cta::Launch kLaunch = cta::launch_of(kAll, kSm);
  static constexpr cta::Registers kRegisters =
      cta::registers_of(kLaunch.warpgroups, kSm, kLaunch.at_least);
  static constexpr bool kFits = kLaunch.shared_bytes <= kSm.shared_bytes;
  static constexpr int kBytes = static_cast<int>(kLaunch.shared_bytes);
  static constexpr cta::Stages kStages = kLaunch.stages;
  template <std::size_t kJ>
  static constexpr int kSlots = kList[kJ].slots(kStages);
  template <std::size_t kJ>
  static constexpr int kTilesAt = static_cast<int>(kAll.tiles_at(kJ, kStages));
  template <std::size_t kJ>
  static constexpr int kBarriersAt = static_cast<int>(kAll.barriers_at(kJ, kStages));
  static constexpr int kCellRingAt = static_cast<int>(kAll.cell_ring_at(kStages));

  static constexpr int kGroups = kLaunch.groups;  ///< of computing threads
  /// Warps that fetch for as many groups each, where the copy engine brings all.
  static constexpr int kFetchers = [] {
    int n = cta::kProducers / 32;
    while (kGroups % n != 0) --n;
    return n;
  }();
  static constexpr int kComputing = cta::kWarpgroup * kLaunch.warpgroups;
  static constexpr SharedAt kScopeAt = kSharedBegin + static_cast<SharedAt>(kAll.scope_at(kStages));
  static constexpr int kExchangeAt =
      kExchanging<S> ? static_cast<int>(kSharedBegin + kAll.exchange_at(kStages)) : 0;
  static constexpr int kChunksAt = kLaunch.half_warps > 1
                                       ? static_cast<int>(kSharedBegin + kAll.chunks_at(kStages))
                                       : 0;
  static constexpr int kHandAt =
      kLaunch.mma_sync ? static_cast<int>(kSharedBegin + kAll.chunks_at(kStages)) : 0;
  /// More elements than that, of the largest block, and a thread has no registers for two tiles.
  static constexpr int kMostHeld = 64;
  static constexpr bool kLazy = cta::long_rows_of(kAll).held > kMostHeld;
  using OneGroup = Warps<kLaunch.groups == 1 ? kLaunch.warpgroups : 1, kHandAt, kExchangeAt>;
  using Groups = Warps<1, 0, 0, kLaunch.across, kLaunch.groups>;
  using Layout = std::conditional_t<
      kLaunch.mma_sync, std::conditional_t<kLaunch.groups == 1, OneGroup, Groups>,
      std::conditional_t<kLaunch.tensor_cores, Warpgroups<kLaunch.warpgroups, kExchangeAt>,
                         Threads<kComputing, kLaunch.half_warps, kExchangeAt, kChunksAt,
                                 kLaunch.fast_functions, kLazy>>>;
};

}  // namespace tessera::cuda
