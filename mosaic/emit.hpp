// From a kernel to its module.
//
//   BuiltModule m = emit(Matmul<bf16>{.m = 512, .n = 512, .k = 512}, {128, 128, 128});
//
// The module's grid has the dims of the spec's. Where the bounds of an arbitrary dim depend on
// outer ids, it is as long as the longest run between them; the steps behind a run's end do
// nothing, and their windows are those of its last step, so nothing is moved for them. Bounds are
// evaluated here for all outer ids; a run without a step is unsupported. Windows of one slot are
// synchronous; of more than two, unsupported. Errors: unsupported, shape-mismatch.
#pragma once

#include <memory>
#include <utility>

#include "mosaic/backend.hpp"
#include "mosaic/env.hpp"
#include "sim/body/kernel.hpp"

namespace tessera::mosaic {

struct Bounds {
  Number lo;
  Number hi;
};

/// A kernel's spec and body, without their types.
class TracedKernel {
 public:
  TracedKernel() = default;
  TracedKernel(const TracedKernel&) = delete;
  TracedKernel& operator=(const TracedKernel&) = delete;
  virtual ~TracedKernel() = default;

  struct Dim {
    bool parallel = false;
    bool depends = false;  ///< its bounds are functions of the ids before it
  };
  std::string name;
  std::vector<Dim> dims;
  std::vector<Operand> operands;  ///< those that the body gets, in its order
  std::vector<PrefetchedArray> arrays;
  Meeting meeting;

  /// Of a dim, from the ids before it.
  virtual Bounds bounds(int dim, const std::vector<Number>& ids) const = 0;
  virtual std::vector<Number> index(int operand, const std::vector<Number>& ids) const = 0;
  virtual void body(Env& env) const = 0;
};

BuiltModule write(TracedKernel& kernel, bool fused = true);

namespace detail {

template <int kCount, class F>
auto with_numbers(const F& f, const std::vector<Number>& ids) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) { return f(ids[I]...); }
  (std::make_index_sequence<static_cast<std::size_t>(kCount)>{});
}

template <int kDim, class Bound>
Number bound_of(const Bound& bound, const std::vector<Number>& ids) {
  if constexpr (std::is_convertible_v<Bound, int>)
    return known(static_cast<int>(bound));
  else
    return number(with_numbers<kDim>(bound, ids));
}

template <class K, class S>
class TypedKernel final : public TracedKernel {
  using G = typename S::GridType;
  using Operands = decltype(S::operands);
  using Indices = std::make_index_sequence<std::tuple_size_v<Operands>>;
  template <std::size_t I>
  using OpAt = std::tuple_element_t<I, Operands>;
  /// Place among the operands that the body gets.
  template <std::size_t I>
  static constexpr std::size_t kPlace = [] {
    return []<std::size_t... J>(std::index_sequence<J...>) {
      return (std::size_t{0} + ... + (OpAt<J>::kPassed ? 1 : 0));
    }
    (std::make_index_sequence<I>{});
  }();

 public:
  TypedKernel(const K& kernel, const S& spec) : kernel_(kernel), spec_(spec) {
    name = K::info.name;
    if constexpr (requires { kernel.devices; }) meeting.devices = kernel.devices;
    std::apply([&](const auto&... dim) { (add_dim(dim), ...); }, spec.grid.dims);
    std::apply([&](const auto&... op) { (add_operand(op), ...); }, spec.operands);
  }

  Bounds bounds(int dim, const std::vector<Number>& ids) const override {
    Bounds found{};
    [&]<std::size_t... D>(std::index_sequence<D...>) {
      ((static_cast<int>(D) == dim ? void(found = bounds_at<D>(ids)) : void()), ...);
    }
    (std::make_index_sequence<static_cast<std::size_t>(G::kRank)>{});
    return found;
  }

  std::vector<Number> index(int operand, const std::vector<Number>& ids) const override {
    std::vector<Number> found;
    [&]<std::size_t... I>(std::index_sequence<I...>) { (index_if<I>(operand, ids, found), ...); }
    (Indices{});
    return found;
  }

  void body(Env& env) const override {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      std::apply([&](auto... refs) { kernel_(env, refs...); }, std::tuple_cat(ref<I>()...));
    }
    (Indices{});
  }

 private:
  template <class D>
  void add_dim(const D& dim) {
    if constexpr (D::kArbitraryDim) {
      dims.push_back({false, !(std::is_convertible_v<decltype(dim.lo), int> &&
                               std::is_convertible_v<decltype(dim.hi), int>)});
    } else {
      dims.push_back({true, false});
    }
  }
  template <class Op>
  void add_operand(const Op& op) {
    if constexpr (Op::kPassed)
      operands.push_back(operand_of(op));
    else
      arrays.push_back(
          {op.name.text, op.array.data, op.array.size, kDTypeOf<typename Op::Element>, kNoValue});
  }
  template <std::size_t D>
  Bounds bounds_at(const std::vector<Number>& ids) const {
    const auto& dim = std::get<D>(spec_.grid.dims);
    if constexpr (std::remove_cvref_t<decltype(dim)>::kArbitraryDim)
      return {bound_of<static_cast<int>(D)>(dim.lo, ids),
              bound_of<static_cast<int>(D)>(dim.hi, ids)};
    else
      return {known(0), known(dim.count)};
  }
  template <std::size_t I>
  void index_if(int operand, const std::vector<Number>& ids, std::vector<Number>& found) const {
    if constexpr (OpAt<I>::kPassed) {
      if constexpr (OpAt<I>::kRole == Role::in || OpAt<I>::kRole == Role::out) {
        if (operand != static_cast<int>(kPlace<I>)) return;
        const auto at = with_numbers<G::kRank>(std::get<I>(spec_.operands).map, ids);
        for (int d = 0; d < decltype(at)::kRank; ++d) {
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(at.index[0])>, Number>)
            found.push_back(at.index[static_cast<std::size_t>(d)]);
          else
            found.push_back(known(at.index[d]));
        }
      }
    }
  }
  template <std::size_t I>
  auto ref() const {
    if constexpr (!OpAt<I>::kPassed) {
      return std::tuple<>{};
    } else {
      return std::tuple{ref_of<OpAt<I>>(operands[kPlace<I>])};
    }
  }

  const K& kernel_;
  const S& spec_;
};

template <class K, std::size_t... I>
auto spec_of(const K& kernel, const std::vector<int>& tiles, std::index_sequence<I...>) {
  return kernel.spec(tiles.at(I)...);
}

/// What the library of a kernel offers for element type T.
template <template <class> class K, class T>
BuiltModule build(const Request& request) {
  K<T> kernel;
  for (std::size_t i = 0; i < K<T>::sizes.size(); ++i) {
    const auto& s = K<T>::sizes[i];
    if (s.integer != nullptr)
      kernel.*s.integer = static_cast<int>(request.sizes.at(i));
    else
      kernel.*s.real = static_cast<float>(request.sizes.at(i));
  }
  Tiles tiles;
  for (std::size_t i = 0; i < request.tiles.size(); ++i) tiles.size[i] = request.tiles[i];
  PreparedHost host(request.inputs);
  if constexpr (requires { kernel.prepare(host, tiles); }) kernel.prepare(host, tiles);
  const auto spec = spec_of(kernel, request.tiles, std::make_index_sequence<K<T>::tiles.size()>{});
  TypedKernel traced(kernel, spec);
  return write(traced, request.fused);
}

}  // namespace detail

/// The module of a kernel whose sizes are set and whose arrays are prepared.
template <class K>
BuiltModule emit(const K& kernel, const std::vector<int>& tiles) {
  const auto spec = detail::spec_of(kernel, tiles, std::make_index_sequence<K::tiles.size()>{});
  detail::TypedKernel traced(kernel, spec);
  return write(traced);
}

/// A kernel template in element types T.
template <template <class> class K, class... T>
Kernel kernel_of() {
  Kernel kernel{K<float>::info.name, {}, {}, {{kDTypeOf<T>, detail::build<K, T>}...}};
  for (const auto& size : K<float>::sizes) kernel.sizes.emplace_back(size.name);
  for (const auto& tile : K<float>::tiles) kernel.tiles.emplace_back(tile.name);
  return kernel;
}

}  // namespace tessera::mosaic
