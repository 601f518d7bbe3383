// What a kernel takes: its grid, its operands and its scratch.
//
//   spec(grid(...),
//        in<T>("x", shape(m, k), block(bm, bk), [](auto i, auto j, auto k) { return at(i, k); }),
//        out<T>("o", shape(m, n), block(bm, bn), [](auto i, auto j, auto) { return at(i, j); }),
//        accum<float>("acc", bm, bn));
//
// The body receives one ref per operand, in this order, as a 2-D block: the last block dim is its
// columns, the others its rows; `squeezed` dims vanish (one index, no extent); a 1-D block is one
// row. Index maps take the program ids and return block indices, as Pallas's do. `scalars` are
// listed, not passed: the kernel holds them as Smem members. Arrays left in HBM (hbm_in, hbm_out,
// hbm) and semaphores (dma_sem, sem) are refs for explicit copies: sim/tiles/async.hpp has the
// calls.
//
// Modifiers: .buffered(n) slots (2 unless said), .pad(v) value of the out-of-bounds part of a
// ragged input block (poison unless said: NaN, or an implausible integer), .when(c) operand absent
// unless c, .aliases("x") an output that overwrites the array of input x, .same_as("x") an input
// whose array is that of input x, by blocks of its own, .uniform(lo, hi) what made-up arrays of an
// input hold, .evict_first() an input that nobody reads again: the copy engine of a GPU leaves it
// to L2 as what makes room first (PTX's eviction priority). Others do not know of it.
//
// .when(tile), of a tile size of the kernel's: an input absent by type where it is 0. A GPU's build
// knows tile sizes, and keeps no slot for it; of one that a condition makes absent it does. The
// body asks if (ref.there()), and what is behind it is not in that instance.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <type_traits>

#include "memory_model/dtype.hpp"
#include "memory_model/here.hpp"
#include "memory_model/layout.hpp"
#include "sim/body/extent.hpp"
#include "sim/body/grid.hpp"
#include "sim/body/smem.hpp"

namespace tessera {

/// An operand's name, with the source line that it stands on.
struct Name {
  const char* text;
  Here at;
  TESSERA_FN constexpr Name(const char* s,
                            Here here = Here::now())  // NOLINT(google-explicit-constructor)
      : text(s), at(here) {}
};

/// A block dim of one index, dropped from the block.
struct Squeezed {};
inline constexpr Squeezed squeezed{};

/// A block index: one entry per dim of the array.
template <class... I>
struct BlockIndex {
  static constexpr bool kArbitraryIndex = (kIsArbitrary<I> || ... || false);
  static constexpr int kRank = sizeof...(I);
  std::int64_t index[sizeof...(I)];
};
template <class... I>
TESSERA_FN constexpr auto at(I... i) {
  static_assert(sizeof...(I) >= 1 && sizeof...(I) <= kMaxRank, "an array has 1 to 8 dims");
  return BlockIndex<I...>{{static_cast<std::int64_t>(static_cast<int>(i))...}};
}

/// Array extents.
template <class... E>
TESSERA_FN constexpr Shape shape(E... extents) {
  return Shape{static_cast<std::int64_t>(static_cast<int>(extents))...};
}

/// Block extents, one per array dim: int, Int<N> or `squeezed`.
template <class... E>
struct BlockDims {
  static constexpr int kRank = sizeof...(E);
  /// Dims that the body sees.
  static constexpr int kKept = (0 + ... + (std::is_same_v<E, Squeezed> ? 0 : 1));
  std::tuple<E...> extents;
};
template <class... E>
TESSERA_FN constexpr auto block(E... extents) {
  return BlockDims<E...>{{extents...}};
}

namespace detail {
template <class E>
TESSERA_FN constexpr int block_extent(E e) {
  if constexpr (std::is_same_v<E, Squeezed>)
    return 1;
  else
    return static_cast<int>(e);
}
template <class A, class B>
TESSERA_FN constexpr auto extent_product(A a, B b) {
  if constexpr (std::is_same_v<A, int> || std::is_same_v<B, int>) {
    return static_cast<int>(a) * static_cast<int>(b);
  } else {
    return Int<A::value * B::value>{};
  }
}
template <class E>
TESSERA_FN constexpr auto kept_extent(E e) {
  if constexpr (std::is_same_v<E, Squeezed>)
    return Int<1>{};
  else
    return e;
}
/// Place of the last extent that is not squeezed, or -1.
template <class... E>
TESSERA_FN constexpr int last_kept() {
  constexpr bool kSqueezed[] = {std::is_same_v<E, Squeezed>...};
  int last = static_cast<int>(sizeof...(E)) - 1;
  while (last >= 0 && kSqueezed[last]) --last;
  return last;
}
template <int kUpTo, class Tuple>
TESSERA_FN constexpr auto product_before(const Tuple& t) {
  if constexpr (kUpTo == 0)
    return Int<1>{};
  else
    return extent_product(product_before<kUpTo - 1>(t), kept_extent(std::get<kUpTo - 1>(t)));
}
}  // namespace detail

/// Columns and rows of a block as the body sees it: Int<N> if the extents are.
template <class... E>
TESSERA_FN constexpr auto block_cols(const BlockDims<E...>& b) {
  constexpr int kLast = detail::last_kept<E...>();
  if constexpr (kLast < 0)
    return Int<1>{};
  else
    return std::get<kLast>(b.extents);
}
template <class... E>
TESSERA_FN constexpr auto block_rows(const BlockDims<E...>& b) {
  constexpr int kLast = detail::last_kept<E...>();
  return detail::product_before<(kLast < 0 ? 0 : kLast)>(b.extents);
}

/// What made-up arrays of an input hold: numbers uniform in [lo, hi), rounded to its type; of
/// integers the whole ones. Nothing said (lo == hi): what the command line's --inputs says.
struct Spread {
  double lo = 0;
  double hi = 0;
};

enum class Role : std::uint8_t { in, out, accum, vmem, smem, hbm_in, hbm_out, hbm, dma_sem, sem };

/// Arrays that stay in HBM, for explicit copies.
constexpr bool in_hbm(Role r) { return r == Role::hbm_in || r == Role::hbm_out || r == Role::hbm; }
constexpr bool is_semaphore(Role r) { return r == Role::dma_sem || r == Role::sem; }
/// Operands that the body sees as a block: a tile to load and store.
constexpr bool is_block(Role r) { return !in_hbm(r) && !is_semaphore(r); }

/// Who knows whether an operand is there: the run, or its type (`.when(tile)`).
enum class Presence : std::uint8_t { of_run, by_type, absent_by_type };

template <Role kRoleOf, class T, class Block, class Map, Presence kPresenceOf = Presence::of_run>
struct Operand {
  using Element = T;
  static constexpr Role kRole = kRoleOf;
  static constexpr Presence kPresence = kPresenceOf;
  static constexpr bool kPassed = true;
  Name name;
  Shape shape;
  Block block;
  Map map;
  int buffers = 2;
  bool present = true;
  bool padded = false;
  double pad_value = 0;
  const char* alias = nullptr;  ///< of an output: the input whose array it overwrites
  const char* same = nullptr;   ///< of an input: the input before it whose array it is
  Spread spread{};
  bool built = true;   ///< false: the build for these tile sizes does not have it
  bool total = false;  ///< what runs of a sum are added to (sim/body/runs.hpp)
  bool once = false;   ///< of an input: nobody reads it again

  TESSERA_FN constexpr Operand buffered(int slots) const {
    Operand o = *this;
    o.buffers = slots;
    return o;
  }
  TESSERA_FN constexpr Operand pad(double value) const {
    Operand o = *this;
    o.padded = true;
    o.pad_value = value;
    return o;
  }
  TESSERA_FN constexpr Operand aliases(const char* input) const {
    static_assert(kRole == Role::out || kRole == Role::hbm_out, "an output aliases an input");
    Operand o = *this;
    o.alias = input;
    return o;
  }
  TESSERA_FN constexpr Operand same_as(const char* input) const {
    static_assert(kRole == Role::in || kRole == Role::hbm_in, "an input is the same as another");
    Operand o = *this;
    o.same = input;
    return o;
  }
  TESSERA_FN constexpr Operand uniform(double lo, double hi) const {
    static_assert(kRole == Role::in || kRole == Role::hbm_in, "inputs are made up, not results");
    Operand o = *this;
    o.spread = {lo, hi};
    return o;
  }
  TESSERA_FN constexpr Operand evict_first() const {
    static_assert(kRole == Role::in, "blocks of inputs are brought");
    Operand o = *this;
    o.once = true;
    return o;
  }
  TESSERA_FN constexpr Operand when(bool condition) const {
    Operand o = *this;
    o.present = condition;
    return o;
  }
  /// A tile size: where those are constants, by type.
  TESSERA_FN constexpr Operand when(int tile) const {
    static_assert(kRole == Role::in, "an input is absent by type");
    Operand o = *this;
    o.present = o.built = tile != 0;
    return o;
  }
  template <int N>
  TESSERA_FN constexpr auto when(Int<N> tile) const {
    constexpr Presence kOf = N != 0 ? Presence::by_type : Presence::absent_by_type;
    const Operand o = when(static_cast<int>(tile));
    return Operand<kRole, T, Block, Map, kOf>{o.name,    o.shape,  o.block,     o.map,   o.buffers,
                                              o.present, o.padded, o.pad_value, o.alias, o.same,
                                              o.spread,  o.built,  o.total,     o.once};
  }
};

/// Scratch has no index map.
struct NoMap {};

/// A scalar-prefetched array, as listed in a spec.
template <class T>
struct Scalars {
  using Element = T;
  static constexpr bool kPassed = false;
  Name name;
  Smem<T> array;
};

template <class T, class Block, class Map>
TESSERA_FN constexpr auto in(Name name, Shape array, Block block, Map map) {
  return Operand<Role::in, T, Block, Map>{name, array, block, map};
}
template <class T, class Block, class Map>
TESSERA_FN constexpr auto out(Name name, Shape array, Block block, Map map) {
  return Operand<Role::out, T, Block, Map>{name, array, block, map};
}
/// Scratch that the CUDA build keeps in registers: read and written whole.
template <class T, class R, class C>
TESSERA_FN constexpr auto accum(Name name, R rows, C cols) {
  return Operand<Role::accum, T, BlockDims<R, C>, NoMap>{
      name, shape(rows, cols), block(rows, cols), {}, 1};
}
/// Scratch in VMEM (shared memory).
template <class T, class R, class C>
TESSERA_FN constexpr auto vmem(Name name, R rows, C cols) {
  return Operand<Role::vmem, T, BlockDims<R, C>, NoMap>{
      name, shape(rows, cols), block(rows, cols), {}, 1};
}
/// Scratch in VMEM in slots of rows x cols: the body takes ref.slot(i).
template <class T, class S, class R, class C>
TESSERA_FN constexpr auto vmem(Name name, S slots, R rows, C cols) {
  return Operand<Role::vmem, T, BlockDims<S, R, C>, NoMap>{
      name, shape(slots, rows, cols), block(slots, rows, cols), {}, 1};
}
/// Arrays left in HBM: the body copies what it needs. Of any rank.
template <class T>
TESSERA_FN constexpr auto hbm_in(Name name, Shape array) {
  return Operand<Role::hbm_in, T, BlockDims<>, NoMap>{name, array, {}, {}, 1};
}
template <class T>
TESSERA_FN constexpr auto hbm_out(Name name, Shape array) {
  return Operand<Role::hbm_out, T, BlockDims<>, NoMap>{name, array, {}, {}, 1};
}
/// Scratch in HBM; it starts undefined.
template <class T>
TESSERA_FN constexpr auto hbm(Name name, Shape array) {
  return Operand<Role::hbm, T, BlockDims<>, NoMap>{name, array, {}, {}, 1};
}
/// An array of `count` semaphores that count the bytes of transfers, or signals: ref[i], or ref
/// itself if there is one.
template <class N = Int<1>>
TESSERA_FN constexpr auto dma_sem(Name name, N count = {}) {
  return Operand<Role::dma_sem, std::int32_t, BlockDims<N>, NoMap>{
      name, shape(count), block(count), {}, 1};
}
template <class N = Int<1>>
TESSERA_FN constexpr auto sem(Name name, N count = {}) {
  return Operand<Role::sem, std::int32_t, BlockDims<N>, NoMap>{
      name, shape(count), block(count), {}, 1};
}
/// Scalar scratch in SMEM, read and written by element: ref[i].
template <class T, class N>
TESSERA_FN constexpr auto smem(Name name, N elems) {
  return Operand<Role::smem, T, BlockDims<N>, NoMap>{name, shape(elems), block(elems), {}, 1};
}
template <class T>
TESSERA_FN constexpr auto scalars(Name name, Smem<T> array) {
  return Scalars<T>{name, array};
}

template <class G, class... Op>
struct Spec {
  using GridType = G;
  G grid;
  std::tuple<Op...> operands;
};
namespace detail {
template <class Map, std::size_t... I>
constexpr int index_rank(std::index_sequence<I...>) {
  if constexpr (requires(const Map& map) { map(static_cast<int>(I)...); })
    return std::remove_cvref_t<decltype(std::declval<const Map&>()(static_cast<int>(I)...))>::kRank;
  else
    return -1;  // it takes another number of ids
}
/// How many block indices the map of an operand gives for the ids of a grid; 0: it has no map.
template <class G, class Op>
constexpr int index_rank() {
  if constexpr (!requires(const Op& op) { op.map; })
    return 0;
  else if constexpr (std::is_same_v<decltype(Op::map), NoMap>)
    return 0;
  else
    return index_rank<decltype(Op::map)>(std::make_index_sequence<G::kRank>{});
}
/// Place of the first one that is true, counted from 1; 0: none.
constexpr int first_true(std::initializer_list<bool> list) {
  int place = 0;
  for (const bool is : list) {
    ++place;
    if (is) return place;
  }
  return 0;
}
/// The first operand whose index map does not take the ids of the grid.
template <class G, class... Op>
constexpr int first_wrong_map() {
  return first_true({(index_rank<G, Op>() < 0)...});
}
/// The first operand whose block has not an extent per index.
template <class G, class Op>
constexpr bool is_wrong_block() {
  if constexpr (index_rank<G, Op>() > 0)
    return index_rank<G, Op>() != decltype(Op::block)::kRank;
  else
    return false;
}
template <class G, class... Op>
constexpr int first_wrong_block() {
  return first_true({is_wrong_block<G, Op>()...});
}
}  // namespace detail

template <class G, class... Op>
requires(detail::first_wrong_map<G, Op...>() == 0 &&
         detail::first_wrong_block<G, Op...>() == 0) TESSERA_FN
    constexpr auto spec(G grid, Op... operands) {
  return Spec<G, Op...>{grid, {operands...}};
}
// What the compiler says of a wrong spec, at its line.
template <class G, class... Op, int kOperand = detail::first_wrong_map<G, Op...>()>
requires(kOperand != 0)
    [[gnu::unavailable("the index map of operand kOperand of the spec takes another number of "
                       "program ids than the grid has")]] constexpr auto spec(G grid,
                                                                              Op... operands) {
  return Spec<G, Op...>{grid, {operands...}};
}
template <class G, class... Op, int kOperand = detail::first_wrong_block<G, Op...>()>
requires(detail::first_wrong_map<G, Op...>() == 0 && kOperand != 0) [[gnu::unavailable(
    "the block of operand kOperand of the spec has another number of "
    "extents than its index map gives indices")]] constexpr auto spec(G grid, Op... operands) {
  return Spec<G, Op...>{grid, {operands...}};
}

namespace detail {
/// Stands for the env, and for a ref.
struct AnyArgument {};
/// True if a body takes the env and so many refs.
template <class K, int kRefs>
constexpr bool takes_refs() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return requires(const K& kernel, AnyArgument& env, std::array<AnyArgument, kRefs + 1> refs) {
      kernel(env, refs[I]...);
    };
  }
  (std::make_index_sequence<static_cast<std::size_t>(kRefs)>{});
}
/// How many refs a body takes beside the env; -1: none of these numbers.
template <class K, int kTried = 0>
constexpr int refs_taken() {
  constexpr int kMost = 32;
  if constexpr (takes_refs<K, kTried>())
    return kTried;
  else if constexpr (kTried < kMost)
    return refs_taken<K, kTried + 1>();
  else
    return -1;
}
template <class... Op>
constexpr int refs_passed(const std::tuple<Op...>*) {
  return (0 + ... + (Op::kPassed ? 1 : 0));
}
/// How many operands of its spec a kernel's body gets; -1: the spec takes something else.
template <class K>
constexpr int operands_of() {
  if constexpr (requires { K::tiles.size(); }) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (requires(const K& kernel) { kernel.spec(static_cast<int>(I)...); }) {
        using S = decltype(std::declval<const K&>().spec(static_cast<int>(I)...));
        return refs_passed(static_cast<const decltype(S::operands)*>(nullptr));
      } else {
        return -1;
      }
    }
    (std::make_index_sequence<K::tiles.size()>{});
  } else {
    return -1;
  }
}
template <class K>
constexpr bool takes_operands() {
  constexpr int kOperands = operands_of<K>();
  if constexpr (kOperands < 0)
    return true;
  else
    return takes_refs<K, kOperands>();
}
}  // namespace detail
/// A kernel's body takes the env and a ref per operand of its spec, prefetched arrays aside.
template <class K>
concept BodyTakesItsOperands = detail::takes_operands<K>();

/// A run of `size` indices from `start`, `step` apart: what Pallas writes pl.ds(start, size, step).
template <class Start, class Size>
struct Ds {
  Start start;
  Size size;
  int step = 1;
};
template <class Start, class Size>
TESSERA_FN constexpr auto ds(Start start, Size size, int step = 1) {
  return Ds<Start, Size>{start, size, step};
}

}  // namespace tessera
