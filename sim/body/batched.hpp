// batched(kernel, n): the kernel over a leading dimension of n, as vmap does.
//
// The grid gains a parallel dimension in front, every array a leading dim, every block a squeezed
// one. Scratch and scalars are as before; the body sees the same blocks and the same program ids.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"

namespace tessera {

namespace detail {

/// The env that the inner body sees: dimension d is dimension d + 1 of the grid.
template <class Env>
struct InnerEnv {
  Env& outer;
  TESSERA_FN auto program_id(int d) const { return outer.program_id(d + 1); }
  TESSERA_FN auto num_programs(int d) const { return outer.num_programs(d + 1); }
  TESSERA_FN auto first(int d) const { return outer.first(d + 1); }
  TESSERA_FN auto last(int d) const { return outer.last(d + 1); }
  TESSERA_FN void check(auto condition, const char* message, Here at = Here::now()) const {
    outer.check(condition, message, at);
  }
  template <class... X>
  TESSERA_FN void print(const X&... x) const {
    outer.print(x...);
  }
  TESSERA_FN auto scope(const char* region) const { return outer.scope(region); }
  TESSERA_FN auto device_id() const { return outer.device_id(); }
  TESSERA_FN int num_devices() const { return outer.num_devices(); }
  TESSERA_FN int core_id() const { return outer.core_id(); }
  TESSERA_FN int num_cores() const { return outer.num_cores(); }
  template <class L, class H, class F>
  TESSERA_FN void loop(L lo, H hi, F f) const {
    outer.loop(lo, hi, f);
  }
  template <class Body, class... Scratch>
  TESSERA_FN void run_scoped(Body&& body, const Scratch&... scratch) const {
    outer.run_scoped(static_cast<Body&&>(body), scratch...);
  }
  template <class Part, class Use>
  requires requires(Env& of, const Part& part, Use use) { of.sum_of_groups(part, use); }
  TESSERA_FN void sum_of_groups(const Part& part, Use use) const { outer.sum_of_groups(part, use); }
  TESSERA_FN auto barrier_semaphore(int collective_id = 0) const {
    return outer.barrier_semaphore(collective_id);
  }
};

template <class... I>
TESSERA_FN constexpr auto prepend_index(auto b, const BlockIndex<I...>& inner) {
  BlockIndex<decltype(b), I...> index{};
  index.index[0] = static_cast<int>(b);
  for (int d = 0; d < BlockIndex<I...>::kRank; ++d) index.index[d + 1] = inner.index[d];
  return index;
}

/// A bound of an arbitrary dimension that ignores the new outermost id.
template <class Bound>
TESSERA_FN constexpr auto inner_bound(Bound bound) {
  if constexpr (std::is_convertible_v<Bound, int>)
    return bound;
  else
    return [bound](auto, auto... ids) { return bound(ids...); };
}
TESSERA_FN constexpr auto inner_dim(Parallel d) { return d; }
template <class Lo, class Hi, bool kRuns>
TESSERA_FN constexpr auto inner_dim(Arbitrary<Lo, Hi, kRuns> d) {
  const auto lo = inner_bound(d.lo);
  const auto hi = inner_bound(d.hi);
  return Arbitrary<std::remove_const_t<decltype(lo)>, std::remove_const_t<decltype(hi)>, kRuns>{
      lo, hi, d.label};
}

template <class T>
TESSERA_FN constexpr auto batch_operand(const Scalars<T>& s, int) {
  return s;
}
template <Role kRole, class T, class... E, class Map, Presence kPresence>
TESSERA_FN constexpr auto batch_operand(
    const Operand<kRole, T, BlockDims<E...>, Map, kPresence>& op, int n) {
  if constexpr (std::is_same_v<Map, NoMap>) {
    return op;
  } else {
    Shape array{n};
    for (int d = 0; d < op.shape.rank; ++d) array.push_back(op.shape[d]);
    auto map = [inner = op.map](auto b, auto... ids) { return prepend_index(b, inner(ids...)); };
    using Block = BlockDims<Squeezed, E...>;
    return Operand<kRole, T, Block, decltype(map), kPresence>{
        op.name,   array,        Block{std::tuple_cat(std::tuple<Squeezed>{}, op.block.extents)},
        map,       op.buffers,   op.present,
        op.padded, op.pad_value, op.alias,
        op.same,   op.spread,    op.built,
        op.total,  op.once};
  }
}

}  // namespace detail

template <class K>
struct Batched {
  static constexpr KernelInfo info = K::info;
  static constexpr auto tiles = K::tiles;
  static constexpr bool exchanges = [] {
    if constexpr (requires { K::exchanges; })
      return K::exchanges;
    else
      return false;
  }();
  static constexpr bool multiplies = [] {
    if constexpr (requires { K::multiplies; })
      return K::multiplies;
    else
      return true;
  }();
  static constexpr int scope_bytes = [] {
    if constexpr (requires { K::scope_bytes; })
      return K::scope_bytes;
    else
      return 0;
  }();
  K kernel;
  int n = 1;

  TESSERA_FN auto spec(auto... tile_sizes) const {
    const auto inner = kernel.spec(tile_sizes...);
    const int count = n;
    return std::apply(
        [&](const auto&... op) {
          return std::apply(
              [&](const auto&... dim) {
                return tessera::spec(grid(parallel(count).as("batch"), detail::inner_dim(dim)...),
                                     detail::batch_operand(op, count)...);
              },
              inner.grid.dims);
        },
        inner.operands);
  }

  TESSERA_FN void operator()(auto& env, auto... refs) const {
    detail::InnerEnv<std::remove_reference_t<decltype(env)>> inner{env};
    kernel(inner, refs...);
  }
};

template <class K>
TESSERA_FN constexpr auto batched(K kernel, int n) {
  return Batched<K>{kernel, n};
}

}  // namespace tessera
