// C++ kernels at the pipeline's edge: what is typed is index maps, bounds of the grid and calls of
// the body, on tiles (sim/tiles/block_ref.hpp) or on counted tiles (sim/counted/counted_body.hpp).
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sim/body/kernel.hpp"
#include "sim/counted/affine_id.hpp"
#include "sim/counted/counted_body.hpp"
#include "sim/pipeline/body.hpp"
#include "sim/tiles/env.hpp"
#include "sim/tiles/scoped.hpp"

namespace tessera {

template <class K, std::size_t... I>
auto spec_of(const K& kernel, [[maybe_unused]] Tiles tiles, std::index_sequence<I...>) {
  return kernel.spec(tiles[static_cast<int>(I)]...);
}
template <class K>
auto spec_of(const K& kernel, Tiles tiles) {
  return spec_of(kernel, tiles, std::make_index_sequence<K::tiles.size()>{});
}

namespace detail {

/// What of an operand's declaration does not need its type.
struct Declared {
  Role role = Role::in;
  DType dtype = DType::f32;
  Name name;
  Shape array;
  int buffers = 1;
  bool present = true;
  bool padded = false;
  double pad_value = 0;
  const char* alias = nullptr;
  const char* same = nullptr;
  Spread spread;
  bool built = true;
};
/// A plan of it without its block.
OperandPlan operand_plan(const Declared& op, const DeviceSpec& device);

template <class Op>
OperandPlan operand_plan(const Op& op, const DeviceSpec& device) {
  OperandPlan p = operand_plan(
      Declared{Op::kRole, kDTypeOf<typename Op::Element>, op.name, op.shape, op.buffers, op.present,
               op.padded, op.pad_value, op.alias, op.same, op.spread, op.built},
      device);
  std::apply(
      [&](const auto&... e) {
        [[maybe_unused]] const auto add = [&](const auto& extent) {
          p.squeezed[static_cast<std::size_t>(p.block.rank)] =
              std::is_same_v<std::remove_cvref_t<decltype(extent)>, Squeezed>;
          p.block.push_back(block_extent(extent));
        };
        (add(e), ...);
      },
      op.block.extents);
  p.rows = static_cast<int>(block_rows(op.block));
  p.cols = static_cast<int>(block_cols(op.block));
  return p;
}

/// True if no arbitrary dimension of the grid moves the block of a pipelined operand.
template <class G, class Op>
constexpr bool stays_in_cell() {
  if constexpr (Op::kRole == Role::in || Op::kRole == Role::out) {
    using Index = decltype(with_ids<G, G::kRank>(
        std::declval<const Op&>().map, std::declval<const std::array<int, kMaxGridRank>&>()));
    static_assert(Index::kRank == decltype(Op::block)::kRank,
                  "an index map returns one block index per dim of its array");
    return !Index::kArbitraryIndex;
  } else {
    return false;
  }
}

template <class G, class Op>
void add_operand(Plan& plan, const Op& op) {
  if constexpr (!Op::kPassed) {
    plan.scalars.push_back(
        {op.name.text, kDTypeOf<typename Op::Element>, op.array.size, op.name.at});
  } else {
    plan.operands.push_back(operand_plan(op, plan.device));
    plan.operands.back().of_cell = stays_in_cell<G, Op>();
    const bool scratch = is_block(Op::kRole) && Op::kRole != Role::in && Op::kRole != Role::out;
    plan.operands.back().of_run = G::kHasRuns && scratch && !op.total;
  }
}
template <class Dim>
void add_dim(Plan& plan, const Dim& dim, std::size_t d) {
  plan.labels[d] = dim.label;
  if constexpr (Dim::kRunsDim) plan.runs = static_cast<int>(dim.hi);
  if constexpr (!Dim::kArbitraryDim)
    plan.bounds[d] = Range{0, dim.count};
  else if constexpr (std::is_convertible_v<decltype(dim.lo), int> &&
                     std::is_convertible_v<decltype(dim.hi), int>)
    plan.bounds[d] = Range{static_cast<int>(dim.lo), static_cast<int>(dim.hi)};
}

/// Place of operand I among those that have a plan (scalars have none).
template <class Operands, std::size_t I>
inline constexpr std::size_t kPlaceAmongPlans = [] {
  return []<std::size_t... J>(std::index_sequence<J...>) {
    return (std::size_t{0} + ... + (std::tuple_element_t<J, Operands>::kPassed ? 1 : 0));
  }
  (std::make_index_sequence<I>{});
}();

}  // namespace detail

/// The plan of scratch from its declaration.
template <class Op>
OperandPlan scratch_plan(const Op& op, const DeviceSpec& device) {
  OperandPlan p = detail::operand_plan(op, device);
  p.strides = row_major_strides(p.array);
  p.kept = p.block.rank > 0 ? p.block : p.array;
  return p;
}

template <class... Dim, class... Op>
Plan plan_of(const char* kernel, const Spec<Grid<Dim...>, Op...>& spec, const DeviceSpec& device) {
  Plan plan;
  plan.kernel = kernel;
  plan.device = device;
  plan.grid_rank = sizeof...(Dim);
  plan.parallel_rank = Grid<Dim...>::kParallel;
  std::size_t d = 0;
  std::apply([&](const auto&... dim) { (detail::add_dim(plan, dim, d++), ...); }, spec.grid.dims);
  std::apply([&](const auto&... op) { (detail::add_operand<Grid<Dim...>>(plan, op), ...); },
             spec.operands);
  return plan;
}

template <class K>
Plan plan_of(const K& kernel, Tiles tiles, const DeviceSpec& device) {
  Plan plan = plan_of(K::info.name, spec_of(kernel, tiles), device);
  plan.peers = requires { kernel.devices; };
  if constexpr (requires { kernel.exchanges; }) plan.exchanges = kernel.exchanges;
  if constexpr (requires { kernel.scope_bytes; }) plan.scope_bytes = kernel.scope_bytes;
  if constexpr (requires { kernel.multiplies; }) plan.multiplies = kernel.multiplies;
  return plan;
}

namespace detail {

template <class Op, bool kPassed>
struct CountedIf {
  using type = NoMap;
};
template <class Op>
struct CountedIf<Op, true> {
  using type = CountedOperand<Op>;
};

template <class K, class S>
class TypedBody final : public Body {
  using G = typename S::GridType;
  using Operands = decltype(S::operands);
  static constexpr int kLast = G::kRank - 1;
  static constexpr std::size_t kOperands = std::tuple_size_v<Operands>;
  using Indices = std::make_index_sequence<kOperands>;
  template <std::size_t I>
  using OpAt = std::tuple_element_t<I, Operands>;
  template <std::size_t I>
  static constexpr std::size_t kPlace = kPlaceAmongPlans<Operands, I>;

 public:
  TypedBody(const K& kernel, const S& spec, CoreView& view)
      : kernel_(kernel),
        spec_(spec),
        view_(view),
        env_(view.ids.data(), view.lo.data(), view.hi.data(), view.printed, view.scopes,
             view.core) {}

  Range bounds(int dim, const int* ids) override {
    return [&]<std::size_t... D>(std::index_sequence<D...>) {
      Range range;
      (bounds_if<D>(dim, ids, range), ...);
      return range;
    }
    (std::make_index_sequence<static_cast<std::size_t>(G::kRank)>{});
  }

  void index(int operand, const int* ids, std::int64_t* index) override {
    with_operand(operand, [&]<std::size_t I>() {
      const auto at = with_ids<G, G::kRank>(std::get<I>(spec_.operands).map, ids);
      std::copy_n(at.index, decltype(at)::kRank, index);
      return true;
    });
  }

  bool along(int operand, const int* ids, std::int64_t* index, std::int64_t* slope) override {
    return with_operand(operand, [&]<std::size_t I>() {
      const auto typed = [&]<std::size_t... D>(std::index_sequence<D...>) {
        return std::tuple{Id<G::kArbitraryDim[D]>{ids[D]}..., AffineId{ids[kLast], 1}};
      }
      (std::make_index_sequence<static_cast<std::size_t>(kLast)>{});
      AffineId::left = false;
      const auto at = std::apply(std::get<I>(spec_.operands).map, typed);
      if (AffineId::left) return false;
      for (int d = 0; d < decltype(at)::kRank; ++d) {
        if constexpr (requires { at.along; }) {
          index[d] = at.along[static_cast<std::size_t>(d)].value;
          slope[d] = at.along[static_cast<std::size_t>(d)].slope;
        } else {
          index[d] = at.index[d];
          slope[d] = 0;
        }
      }
      return true;
    });
  }

  void run() override { call(env_, Indices{}); }

  void count(CountedCore& counted) override {
    if (!counted_) {
      counted_.emplace();
      [&]<std::size_t... I>(std::index_sequence<I...>) { (emplace<I>(counted), ...); }
      (Indices{});
    }
    CountedEnv env(counted);
    call_counted(env, Indices{});
  }

 private:
  template <std::size_t D>
  void bounds_if(int dim, const int* ids, Range& range) const {
    if constexpr (G::kArbitraryDim[D]) {
      const auto& d = std::get<D>(spec_.grid.dims);
      if (dim == static_cast<int>(D))
        range = {bound_at<G, static_cast<int>(D)>(d.lo, ids),
                 bound_at<G, static_cast<int>(D)>(d.hi, ids)};
    }
  }
  /// Calls f for the pipelined operand that has this place in the plan.
  template <class F>
  static bool with_operand(int operand, F&& f) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      bool result = false;
      static_cast<void>((operand_is<I>(operand, f, result) || ...));
      return result;
    }
    (Indices{});
  }
  template <std::size_t I, class F>
  static bool operand_is(int operand, F& f, bool& result) {
    if constexpr (OpAt<I>::kPassed) {
      if constexpr (OpAt<I>::kRole == Role::in || OpAt<I>::kRole == Role::out) {
        if (operand != static_cast<int>(kPlace<I>)) return false;
        result = f.template operator()<I>();
        return true;
      }
    }
    return false;
  }

  /// Operands of the body: refs to blocks, arrays and semaphores, without the scalars.
  template <std::size_t I>
  auto ref() const {
    if constexpr (!OpAt<I>::kPassed) {
      return std::tuple<>{};
    } else {
      constexpr Role kRole = OpAt<I>::kRole;
      using T = typename OpAt<I>::Element;
      if constexpr (is_block(kRole)) {
        return std::tuple{BlockRef<T, kRole>(*view_.blocks[kPlace<I>])};
      } else {
        const OperandPlan& op = view_.plan->operands[kPlace<I>];
        if constexpr (is_semaphore(kRole))
          return std::tuple{SemRef(view_.semaphores[kPlace<I>], *view_.core, op.name.c_str())};
        else
          return std::tuple{HbmRef<T, kRole>(view_.arrays[kPlace<I>], op, *view_.core)};
      }
    }
  }
  template <class E, class Refs, std::size_t... I>
  void call_with(E& env, Refs& refs, std::index_sequence<I...>) const {
    kernel_(env, std::get<I>(refs)...);
  }
  template <std::size_t... I>
  void call(Env& env, std::index_sequence<I...>) {
    auto refs = std::tuple_cat(ref<I>()...);
    call_with(env, refs, std::make_index_sequence<std::tuple_size_v<decltype(refs)>>{});
  }

  template <std::size_t I>
  void emplace(CountedCore& counted) {
    if constexpr (OpAt<I>::kPassed)
      std::get<I>(*counted_).emplace(counted, view_.plan->operands[kPlace<I>]);
  }
  template <std::size_t I>
  auto counted_ref() const {
    if constexpr (OpAt<I>::kPassed)
      return std::tuple{std::get<I>(*counted_)->ref()};
    else
      return std::tuple<>{};
  }
  template <std::size_t... I>
  void call_counted(CountedEnv& env, std::index_sequence<I...>) const {
    auto refs = std::tuple_cat(counted_ref<I>()...);
    call_with(env, refs, std::make_index_sequence<std::tuple_size_v<decltype(refs)>>{});
  }
  template <std::size_t... I>
  static auto counted_operands(std::index_sequence<I...>)
      -> std::tuple<std::optional<typename CountedIf<OpAt<I>, OpAt<I>::kPassed>::type>...>;

  const K& kernel_;
  const S& spec_;
  const CoreView& view_;
  Env env_;
  std::optional<decltype(counted_operands(Indices{}))> counted_;
};

}  // namespace detail

/// A kernel with its spec. Holds references.
template <class K, class S>
class TypedKernel final : public Kernel {
 public:
  TypedKernel(const K& kernel, const S& spec) : kernel_(kernel), spec_(spec) {}
  std::unique_ptr<Body> body(CoreView& view) const override {
    return std::make_unique<detail::TypedBody<K, S>>(kernel_, spec_, view);
  }

 private:
  const K& kernel_;
  const S& spec_;
};

}  // namespace tessera
