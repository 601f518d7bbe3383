// Tiles with a shape and no elements: a body that runs on them counts its work and computes nothing
// (sim/pipeline/count.hpp).
//
// The second host backend of the ops, beside the interpreter's (sim/tiles/tile.hpp): the same
// shapes, the same element types, the same counts. What a body decides by a value (an element of a
// tile, a scalar of SMEM scratch, a semaphore's count) is not there: ValueNeeded.
#pragma once

#include <algorithm>

#include "sim/pipeline/body.hpp"
#include "sim/pipeline/counted_core.hpp"
#include "sim/tiles/tile.hpp"

namespace tessera {

struct Counter;

template <class T>
struct CountedTile {
  using Backend = Counter;
  using Element = T;
  int rows = 0;
  int cols = 0;
  CountedTile& operator=(const CountedTile&) & = default;
  T operator()(int, int) const { throw ValueNeeded{}; }
};
template <class T>
struct CountedTransposed {
  using Backend = Counter;
  using Element = T;
  int rows = 0;
  int cols = 0;
};
template <class T>
struct CountedDot {
  using Backend = Counter;
  using Element = T;
  using Accumulator = typename DotExpression<T>::Accumulator;
  int rows = 0;
  int cols = 0;
  int depth = 0;
  void count() const {
    const std::int64_t flops = 2 * std::int64_t{rows} * cols * depth;
    counted_work.flops += flops;
    counted_work.matrix_flops += flops;
    ++counted_work.products;
    // An instruction of a Hopper tensor core has up to 256 columns (cuda/tensor_dot.hpp).
    const int pieces = (cols + 255) / 256;
    counted_work.left_elements += std::int64_t{rows} * depth * pieces;
  }
};
template <class X>
inline constexpr bool kIsCountedDot = false;
template <class T>
inline constexpr bool kIsCountedDot<CountedDot<T>> = true;

struct Counter {
  template <class Op, class... X>
  static auto map(const X&... x) {
    using S = ScalarOf<X...>;
    const int rows = std::max({extent(x, true)...});
    const int cols = std::max({extent(x, false)...});
    if ((((extent(x, true) != rows && extent(x, true) != 1) ||
          (extent(x, false) != cols && extent(x, false) != 1)) ||
         ...)) {
      fail_shapes(Op::info.name, {{extent(x, true), extent(x, false)}...});
    }
    using R = decltype(apply_element<Op>(std::declval<ValueOf<X, S>>()...));
    const std::int64_t elems = std::int64_t{rows} * cols;
    counted_work.flops += elems * Op::info.flops;
    counted_work.elements += elems;
    if constexpr (Op::info.transcendental) counted_work.transcendentals += elems;
    return CountedTile<R>{rows, cols};
  }

  template <class To, class A>
  static CountedTile<To> cast(const A& a) {
    if (!std::is_same_v<To, typename A::Element>)
      counted_work.elements += std::int64_t{a.rows} * a.cols;
    return {a.rows, a.cols};
  }

  template <class Reduction, class A>
  static auto reduce_rows(const A& a) {
    counted_work.flops += std::int64_t{a.rows} * a.cols;
    counted_work.elements += std::int64_t{a.rows} * a.cols;
    return CountedTile<typename A::Element>{a.rows, 1};
  }

  template <class Reduction, class A>
  static auto reduce_cols(const A& a) {
    counted_work.flops += std::int64_t{a.rows} * a.cols;
    counted_work.elements += std::int64_t{a.rows} * a.cols;
    return CountedTile<typename A::Element>{1, a.cols};
  }
  template <class Which, class A>
  static CountedTile<std::int32_t> ids(const A& like) {
    return {like.rows, like.cols};
  }
  template <class T>
  static CountedTile<T> full(int rows, int cols, T) {
    return {rows, cols};
  }
  template <class To, class A>
  static CountedTile<To> bitcast(const A& a) {
    return {a.rows, a.cols};
  }
  template <bool kRows, class A, class B>
  static auto concat(const A& a, const B& b) {
    if (kRows ? a.cols != b.cols : a.rows != b.rows)
      fail_shapes(kRows ? "concat_rows" : "concat_cols", {{a.rows, a.cols}, {b.rows, b.cols}});
    const CountedTile<typename A::Element> all{a.rows + (kRows ? b.rows : 0),
                                               a.cols + (kRows ? 0 : b.cols)};
    counted_work.elements += std::int64_t{all.rows} * all.cols;
    return all;
  }
  template <bool kRows, class A>
  static auto roll(const A& a, int) {
    counted_work.elements += std::int64_t{a.rows} * a.cols;
    return CountedTile<typename A::Element>{a.rows, a.cols};
  }
  template <bool kRows, int kTimes, class A>
  static auto repeat(const A& a) {
    const CountedTile<typename A::Element> all{a.rows * (kRows ? kTimes : 1),
                                               a.cols * (kRows ? 1 : kTimes)};
    counted_work.elements += std::int64_t{all.rows} * all.cols;
    return all;
  }
  template <bool kRows, int kParts, int kWhich, class A>
  static auto part(const A& a) {
    if ((kRows ? a.rows : a.cols) % kParts != 0)
      fail_shapes(kRows ? "split_rows" : "split_cols", {{a.rows, a.cols}});
    return CountedTile<typename A::Element>{kRows ? a.rows / kParts : a.rows,
                                            kRows ? a.cols : a.cols / kParts};
  }

  template <class A, class Keep, class B>
  static auto where_at(const A& a, Keep, B) {
    counted_work.elements += std::int64_t{a.rows} * a.cols;
    return CountedTile<typename A::Element>{a.rows, a.cols};
  }

  template <class A>
  static auto transpose(const A& a) {
    return CountedTransposed<typename A::Element>{a.cols, a.rows};
  }

  template <class A, class B>
  static auto dot(const A& a, const B& b) {
    if (a.cols != b.rows) fail_shapes("dot", {{a.rows, a.cols}, {b.rows, b.cols}});
    return CountedDot<typename A::Element>{a.rows, b.cols, a.cols};
  }

  template <class X>
  static auto load(X&& x) {
    using Plain = std::remove_cvref_t<X>;
    if constexpr (kIsCountedDot<Plain>) {
      x.count();
      counted_work.held_product =
          std::max(counted_work.held_product, std::int64_t{x.rows} * x.cols);
      return CountedTile<typename Plain::Accumulator>{x.rows, x.cols};
    } else {
      return CountedTile<typename Plain::Element>{x.rows, x.cols};
    }
  }

 private:
  template <class X>
  static int extent(const X& x, bool rows) {
    if constexpr (ScalarLike<X> || ScalarPlace<X>)
      return 1;
    else
      return rows ? x.rows : x.cols;
  }
  template <class X, class S>
  static auto value_type() {
    if constexpr (ScalarLike<X> || ScalarPlace<X>)
      return std::type_identity<S>{};
    else
      return std::type_identity<typename X::Element>{};
  }
  template <class X, class S>
  using ValueOf = typename decltype(value_type<X, S>())::type;
};

}  // namespace tessera
