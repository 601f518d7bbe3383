// The interpreter's tiles: what a body computes with, evaluated eagerly.
//
// A Tile<T> is a value: rows x cols elements in row-major order. Copies share memory until a block
// is written (Block::writable); rows of a tile that views an HBM block may lie apart (stride).
// Broadcasting and element types are those of sim/ops/op.hpp. Errors: shape-mismatch; nan-born if
// trapped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "memory_model/dtype.hpp"
#include "memory_model/storage.hpp"
#include "sim/bounds/elementwise.hpp"
#include "sim/bounds/sum.hpp"
#include "sim/numerics/dot.hpp"
#include "sim/numerics/gpu_functions.hpp"
#include "sim/numerics/op_state.hpp"
#include "sim/numerics/reduce_row.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/op.hpp"

namespace tessera {

struct Interpreter;

template <class T>
class Tile {
 public:
  using Backend = Interpreter;
  using Element = T;

  int rows = 0;
  int cols = 0;

  Tile() = default;
  /// A view; `owner` keeps the memory alive, or is empty for memory that outlives the tile.
  Tile(const T* data, int r, int c, std::int64_t stride, StorageHandle owner,
       StorageHandle bounds = {})
      : rows(r),
        cols(c),
        data_(data),
        stride_(stride),
        owner_(std::move(owner)),
        bounds_(std::move(bounds)) {}
  // What `*x` of an input gives is a value: nothing is assigned to it.
  Tile(const Tile&) = default;
  Tile(Tile&&) noexcept = default;
  Tile& operator=(const Tile&) & = default;
  Tile& operator=(Tile&&) & noexcept = default;
  ~Tile() = default;

  T operator()(int r, int c) const { return data_[r * stride_ + c]; }
  const T* data() const { return data_; }
  std::int64_t stride() const { return stride_; }
  bool contiguous() const { return stride_ == cols || rows == 1; }
  /// Bounds on what another build may make of each element (sim/bounds/elementwise.hpp), rows x
  /// cols; null: none but these bits, or no bounds are kept.
  const float* bounds() const {
    return bounds_ ? reinterpret_cast<const float*>(bounds_.bytes()) : nullptr;
  }
  const StorageHandle& bounds_storage() const { return bounds_; }
  bounds::TileView view() const { return {data_, kDTypeOf<T>, rows, cols, stride_, bounds()}; }

 private:
  const T* data_ = nullptr;
  std::int64_t stride_ = 0;
  StorageHandle owner_;
  StorageHandle bounds_;
};

/// A tile being computed: write through data(), then move it into a Tile.
template <class T>
class FreshTile {
 public:
  FreshTile(int rows, int cols)
      : rows_(rows),
        cols_(cols),
        storage_(
            Storage::allocate(sizeof(T) * static_cast<std::size_t>(std::int64_t{rows} * cols))) {}
  T* data() { return reinterpret_cast<T*>(storage_.bytes()); }
  Tile<T> finish(StorageHandle bounds = {}) && {
    const T* d = data();
    return Tile<T>(d, rows_, cols_, cols_, std::move(storage_), std::move(bounds));
  }
  bounds::TileView view() { return {data(), kDTypeOf<T>, rows_, cols_, cols_, nullptr}; }

 private:
  int rows_;
  int cols_;
  StorageHandle storage_;
};

/// transpose(tile): an operand of dot.
template <class T>
struct TransposedTile {
  using Backend = Interpreter;
  using Element = T;
  Tile<T> tile;
  int rows;
  int cols;
};

/// dot(a, b) before it has somewhere to go.
template <class T>
class DotExpression {
 public:
  using Backend = Interpreter;
  using Element = T;
  using Accumulator = std::conditional_t<std::is_same_v<T, double>, double,
                                         std::conditional_t<kIsFloat<T>, float, std::int32_t>>;
  int rows;
  int cols;

  DotExpression(Tile<T> a, bool a_transposed, Tile<T> b, bool b_transposed, int r, int c, int depth)
      : rows(r),
        cols(c),
        a_(std::move(a)),
        b_(std::move(b)),
        at_(a_transposed),
        bt_(b_transposed),
        depth_(depth) {}
  DotExpression(const DotExpression&) = delete;
  DotExpression& operator=(const DotExpression&) = delete;

  /// `sum`: of c, if bounds are kept.
  void accumulate(Accumulator* c, std::int64_t ldc, const bounds::SumView& sum) && {
    if (op_state.error_model != nullptr) {
      bounds::dot_accumulate(c, ldc, operand(a_, at_), bounds_of(a_, at_), operand(b_, bt_),
                             bounds_of(b_, bt_), rows, cols, depth_, *op_state.error_model, sum);
    } else {
      dot_accumulate(c, ldc, operand(a_, at_), operand(b_, bt_), rows, cols, depth_);
    }
    op_state.flops += 2 * std::int64_t{rows} * cols * depth_;
  }

 private:
  static Operand2d<float> bounds_of(const Tile<T>& t, bool transposed) {
    return transposed ? Operand2d<float>{t.bounds(), 1, t.cols}
                      : Operand2d<float>{t.bounds(), t.cols, 1};
  }
  static Operand2d<T> operand(const Tile<T>& t, bool transposed) {
    return transposed ? Operand2d<T>{t.data(), 1, t.stride()}
                      : Operand2d<T>{t.data(), t.stride(), 1};
  }
  Tile<T> a_;
  Tile<T> b_;
  bool at_;
  bool bt_;
  int depth_;
};

template <class X>
inline constexpr bool kIsDot = false;
template <class T>
inline constexpr bool kIsDot<DotExpression<T>> = true;
template <class X>
inline constexpr bool kIsTransposed = false;
template <class T>
inline constexpr bool kIsTransposed<TransposedTile<T>> = true;

[[noreturn]] void fail_shapes(const char* op, std::initializer_list<std::pair<int, int>> extents);
[[noreturn]] void fail_nan_born(const char* op, int row, int col,
                                std::initializer_list<double> operands);

namespace detail {

/// An operand of an elementwise op as the inner loop sees it.
template <class T>
struct Lane {
  const T* data;
  int rows;
  int cols;
  std::int64_t stride;
  const float* bounds = nullptr;
  bounds::TileView view() const { return {data, kDTypeOf<T>, rows, cols, stride, bounds}; }
};

template <class X>
decltype(auto) operand(const X& x) {
  static_assert(
      !kIsDot<X>,
      "dot() is a right-hand side: write *acc += dot(a, b), or name it with load(dot(a, b))");
  static_assert(!kIsTransposed<X>,
                "transpose() is an operand of dot; name it with load(transpose(a))");
  if constexpr (requires { x.checked(); })
    return x.checked();
  else if constexpr (ScalarPlace<X>)
    return static_cast<typename X::ScalarType>(x);
  else
    return x;
}

template <class S, class X>
auto lane_of(const X& x, S& held) {
  if constexpr (ScalarLike<X>) {
    held = convert<S>(x);
    return Lane<S>{&held, 1, 1, 0};
  } else {
    return Lane<typename X::Element>{x.data(), x.rows, x.cols, x.stride(), x.bounds()};
  }
}

/// Flattened: a call in the loop would keep it from being vectorised.
template <class Op, bool... kStep, class R, class... T>
[[gnu::flatten]] void apply_row(R* __restrict out, int n, const T* __restrict... in) {
  for (int i = 0; i < n; ++i) out[i] = apply_element<Op>(in[kStep ? i : 0]...);
}

/// Fixes, operand by operand, whether it steps along a row; then runs the rows.
template <class Op, bool... kStep, class R, class... T>
void apply_rows(R* out, int rows, int cols, const Lane<T>&... lanes) {
  constexpr std::size_t kKnown = sizeof...(kStep);
  if constexpr (kKnown == sizeof...(T)) {
    const bool flat =
        ((kStep ? lanes.stride == cols && lanes.rows == rows : lanes.rows * lanes.cols == 1) &&
         ...);
    if (flat) {
      apply_row<Op, kStep...>(out, rows * cols, lanes.data...);
      return;
    }
    for (int r = 0; r < rows; ++r) {
      apply_row<Op, kStep...>(out + std::int64_t{r} * cols, cols,
                              (lanes.data + (lanes.rows == 1 ? 0 : r * lanes.stride))...);
    }
  } else {
    const int lane_cols = std::get<kKnown>(std::tie(lanes...)).cols;
    if (lane_cols == 1 && cols != 1)
      apply_rows<Op, kStep..., false>(out, rows, cols, lanes...);
    else
      apply_rows<Op, kStep..., true>(out, rows, cols, lanes...);
  }
}

template <class T>
bool is_nan(T v) {
  if constexpr (std::is_floating_point_v<T>)
    return v != v;
  else if constexpr (kIsSmallFloat<T>)
    return is_nan(static_cast<float>(v));
  else
    return false;
}
template <class T>
T lane_at(const Lane<T>& l, int r, int c) {
  return l.data[(l.rows == 1 ? 0 : r) * l.stride + (l.cols == 1 ? 0 : c)];
}

template <class R, class... T>
void trap_nan(const char* op, const R* out, int rows, int cols, const Lane<T>&... lanes) {
  if constexpr (kIsFloat<R>) {
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        if (!is_nan(out[std::int64_t{r} * cols + c]) || (is_nan(lane_at(lanes, r, c)) || ...))
          continue;
        fail_nan_born(op, r, c, {convert<double>(lane_at(lanes, r, c))...});
      }
    }
  }
}

}  // namespace detail

namespace detail {

/// A tile made of parts of others, with their bounds.
template <class T>
class Assembly {
 public:
  Assembly(int rows, int cols, bool bounded) : cols_(cols), result_(rows, cols) {
    if (!bounded) return;
    const auto elems = static_cast<std::size_t>(std::int64_t{rows} * cols);
    bounds_ = StorageHandle(Storage::allocate(sizeof(float) * elems));
    std::fill_n(reinterpret_cast<float*>(bounds_.bytes()), elems, 0.f);
  }
  /// Its rows x cols from (row, col) on come to lie at (to_row, to_col).
  void put(const Tile<T>& from, int row, int col, int rows, int cols, int to_row, int to_col) {
    const auto n = static_cast<std::size_t>(cols);
    for (int r = 0; r < rows; ++r) {
      const std::int64_t to = std::int64_t{to_row + r} * cols_ + to_col;
      std::memcpy(result_.data() + to, from.data() + (row + r) * from.stride() + col,
                  sizeof(T) * n);
      if (from.bounds() != nullptr)
        std::copy_n(from.bounds() + std::int64_t{row + r} * from.cols + col, n,
                    reinterpret_cast<float*>(bounds_.bytes()) + to);
    }
  }
  Tile<T> finish() && { return std::move(result_).finish(std::move(bounds_)); }

 private:
  int cols_;
  FreshTile<T> result_;
  StorageHandle bounds_;
};

/// n in [0, extent): how far a roll by any n goes.
inline int roll_by(int n, int extent) {
  if (extent == 0) return 0;
  const int rest = n % extent;
  return rest < 0 ? rest + extent : rest;
}

}  // namespace detail

/// The backend that the ops of a body reach when their tiles are Tile<T>.
struct Interpreter {
  template <class Op, class... X>
  static auto map(const X&... x) {
    return map_values<Op>(detail::operand(x)...);
  }

  template <class To, class A>
  static Tile<To> cast(const A& a) {
    const auto& tile = detail::operand(a);
    using From = typename A::Element;
    if constexpr (std::is_same_v<To, From>) {
      return tile;
    } else {
      FreshTile<To> result(tile.rows, tile.cols);
      for (int r = 0; r < tile.rows; ++r) {
        const From* from = tile.data() + r * tile.stride();
        To* to = result.data() + std::int64_t{r} * tile.cols;
        for (int c = 0; c < tile.cols; ++c) to[c] = convert<To>(from[c]);
      }
      StorageHandle kept;
      if (tile.bounds() != nullptr) kept = bounds::cast(result.view(), tile.view());
      return std::move(result).finish(std::move(kept));
    }
  }

  template <class Reduction, class A>
  static auto reduce_rows(const A& a) {
    const auto& tile = detail::operand(a);
    using T = typename A::Element;
    static_assert(!kIsSmallFloat<T>, "reduce in f32: row_sum(cast<float>(x))");
    FreshTile<T> result(tile.rows, 1);
    tessera::reduce_rows<Reduction>(result.data(), tile.data(), tile.rows, tile.cols,
                                    tile.stride());
    if (op_state.trap_nan) {
      for (int r = 0; r < tile.rows; ++r) {
        const T* const row = tile.data() + r * tile.stride();
        const bool carried =
            std::any_of(row, row + tile.cols, [](T v) { return detail::is_nan(v); });
        if (detail::is_nan(result.data()[r]) && !carried)
          fail_nan_born(Reduction::info.name, r, 0, {});
      }
    }
    op_state.flops += std::int64_t{tile.rows} * tile.cols;
    StorageHandle kept;
    if (op_state.error_model != nullptr) {
      kept = bounds::reduce_rows(Reduction::info.name, *op_state.error_model, result.view(),
                                 tile.view());
    }
    return std::move(result).finish(std::move(kept));
  }

  template <class Reduction, class A>
  static auto reduce_cols(const A& a) {
    const auto& tile = detail::operand(a);
    using T = typename A::Element;
    static_assert(!kIsSmallFloat<T>, "reduce in f32: col_sum(cast<float>(x))");
    FreshTile<T> result(1, tile.cols);
    reduce_columns<Reduction>(result.data(), tile.data(), tile.rows, tile.cols, tile.stride());
    if (op_state.trap_nan) {
      for (int c = 0; c < tile.cols; ++c) {
        bool carried = false;
        for (int r = 0; r < tile.rows; ++r) carried = carried || detail::is_nan(tile(r, c));
        if (detail::is_nan(result.data()[c]) && !carried)
          fail_nan_born(Reduction::info.name, 0, c, {});
      }
    }
    op_state.flops += std::int64_t{tile.rows} * tile.cols;
    StorageHandle kept;
    if (op_state.error_model != nullptr) {
      // Columns as rows.
      const Tile<T> turned = load(transpose(tile));
      const bounds::TileView of_rows{result.data(), kDTypeOf<T>, tile.cols, 1, 1, nullptr};
      kept = bounds::reduce_rows(Reduction::OfRows::info.name, *op_state.error_model, of_rows,
                                 turned.view());
    }
    return std::move(result).finish(std::move(kept));
  }

  template <class Which, class A>
  static Tile<std::int32_t> ids(const A& like) {
    FreshTile<std::int32_t> result(like.rows, like.cols);
    for (int r = 0; r < like.rows; ++r) {
      std::int32_t* const row = result.data() + std::int64_t{r} * like.cols;
      for (int c = 0; c < like.cols; ++c) row[c] = Which::kRows ? r : c;
    }
    return std::move(result).finish();
  }
  template <class T>
  static Tile<T> full(int rows, int cols, T value) {
    FreshTile<T> result(rows, cols);
    std::fill_n(result.data(), std::int64_t{rows} * cols, value);
    return std::move(result).finish();
  }
  template <class To, class A>
  static Tile<To> bitcast(const A& a) {
    const auto& tile = detail::operand(a);
    FreshTile<To> result(tile.rows, tile.cols);
    for (int r = 0; r < tile.rows; ++r) {
      std::memcpy(result.data() + std::int64_t{r} * tile.cols, tile.data() + r * tile.stride(),
                  sizeof(To) * static_cast<std::size_t>(tile.cols));
    }
    return std::move(result).finish(bounds::unknown_where(tile.bounds(), tile.rows, tile.cols));
  }

  template <bool kRows, class A, class B>
  static auto concat(const A& a, const B& b) {
    using T = typename A::Element;
    const Tile<T> first = detail::operand(a);
    const Tile<T> second = detail::operand(b);
    if (kRows ? first.cols != second.cols : first.rows != second.rows)
      fail_shapes(kRows ? "concat_rows" : "concat_cols",
                  {{first.rows, first.cols}, {second.rows, second.cols}});
    detail::Assembly<T> all(first.rows + (kRows ? second.rows : 0),
                            first.cols + (kRows ? 0 : second.cols),
                            first.bounds() != nullptr || second.bounds() != nullptr);
    all.put(first, 0, 0, first.rows, first.cols, 0, 0);
    all.put(second, 0, 0, second.rows, second.cols, kRows ? first.rows : 0, kRows ? 0 : first.cols);
    return std::move(all).finish();
  }
  template <bool kRows, class A>
  static auto roll(const A& a, int n) {
    using T = typename A::Element;
    const Tile<T> tile = detail::operand(a);
    const int by = detail::roll_by(n, kRows ? tile.rows : tile.cols);
    const int down = kRows ? by : 0;
    const int right = kRows ? 0 : by;
    detail::Assembly<T> all(tile.rows, tile.cols, tile.bounds() != nullptr);
    all.put(tile, 0, 0, tile.rows - down, tile.cols - right, down, right);
    if constexpr (kRows)
      all.put(tile, tile.rows - by, 0, by, tile.cols, 0, 0);
    else
      all.put(tile, 0, tile.cols - by, tile.rows, by, 0, 0);
    return std::move(all).finish();
  }
  template <bool kRows, int kTimes, class A>
  static auto repeat(const A& a) {
    using T = typename A::Element;
    const Tile<T> tile = detail::operand(a);
    detail::Assembly<T> all(tile.rows * (kRows ? kTimes : 1), tile.cols * (kRows ? 1 : kTimes),
                            tile.bounds() != nullptr);
    for (int i = 0; i < (kRows ? tile.rows : tile.cols); ++i) {
      for (int n = 0; n < kTimes; ++n) {
        if constexpr (kRows)
          all.put(tile, i, 0, 1, tile.cols, i * kTimes + n, 0);
        else
          all.put(tile, 0, i, tile.rows, 1, 0, i * kTimes + n);
      }
    }
    return std::move(all).finish();
  }
  template <bool kRows, int kParts, int kWhich, class A>
  static auto part(const A& a) {
    using T = typename A::Element;
    const Tile<T> tile = detail::operand(a);
    if ((kRows ? tile.rows : tile.cols) % kParts != 0)
      fail_shapes(kRows ? "split_rows" : "split_cols", {{tile.rows, tile.cols}});
    const int rows = kRows ? tile.rows / kParts : tile.rows;
    const int cols = kRows ? tile.cols : tile.cols / kParts;
    detail::Assembly<T> one(rows, cols, tile.bounds() != nullptr);
    one.put(tile, kRows ? kWhich * rows : 0, kRows ? 0 : kWhich * cols, rows, cols, 0, 0);
    return std::move(one).finish();
  }

  template <class A, class Keep, class B>
  static auto where_at(const A& a, Keep keep, B otherwise) {
    const auto& tile = detail::operand(a);
    using T = typename A::Element;
    const T other = convert<T>(otherwise);
    FreshTile<T> result(tile.rows, tile.cols);
    for (int r = 0; r < tile.rows; ++r) {
      const T* from = tile.data() + r * tile.stride();
      T* to = result.data() + std::int64_t{r} * tile.cols;
      for (int c = 0; c < tile.cols; ++c) to[c] = keep(r, c) ? from[c] : other;
    }
    return std::move(result).finish(bounds::keep_where(tile.bounds(), tile.rows, tile.cols, keep));
  }

  template <class A>
  static auto transpose(const A& a) {
    const auto& tile = detail::operand(a);
    return TransposedTile<typename A::Element>{tile, tile.cols, tile.rows};
  }

  template <class A, class B>
  static auto dot(const A& a, const B& b) {
    using T = typename A::Element;
    static_assert(std::is_same_v<T, typename B::Element>,
                  "dot of two element types: cast<T>() one of them");
    static_assert(kIsFloat<T> || kIsByte<T>,
                  "dot() is of floats and 8-bit integers: cast<T>() first");
    if (a.cols != b.rows) fail_shapes("dot", {{a.rows, a.cols}, {b.rows, b.cols}});
    return DotExpression<T>(dot_tile(a), kIsTransposed<A>, dot_tile(b), kIsTransposed<B>, a.rows,
                            b.cols, a.cols);
  }

  template <class X>
  static auto load(X&& x) {
    using Plain = std::remove_cvref_t<X>;
    using T = typename Plain::Element;
    if constexpr (kIsDot<Plain>) {
      static_assert(!std::is_lvalue_reference_v<X>, "wrap the dot() itself: load(dot(a, b))");
      using Acc = typename Plain::Accumulator;
      const int cols = x.cols;
      FreshTile<Acc> result(x.rows, cols);
      std::fill_n(result.data(), std::int64_t{x.rows} * cols, Acc(0));
      StorageHandle kept;
      if (std::is_floating_point_v<Acc> && op_state.error_model != nullptr) {
        bounds::SumState sum(x.rows, cols);
        const bounds::SumView view = sum.view();
        std::forward<X>(x).accumulate(result.data(), cols, view);
        kept = bounds::write_bounds(result.view(), view, *op_state.error_model);
      } else {
        std::forward<X>(x).accumulate(result.data(), cols, {});
      }
      return std::move(result).finish(std::move(kept));
    } else if constexpr (kIsTransposed<Plain>) {
      FreshTile<T> result(x.rows, x.cols);
      for (int r = 0; r < x.rows; ++r) {
        for (int c = 0; c < x.cols; ++c) result.data()[std::int64_t{r} * x.cols + c] = x.tile(c, r);
      }
      return std::move(result).finish(
          bounds::transposed(x.tile.bounds(), x.tile.rows, x.tile.cols));
    } else {
      return Tile<T>(detail::operand(x));
    }
  }

 private:
  template <class A>
  static auto dot_tile(const A& a) {
    static_assert(!kIsDot<A>, "a dot() of a dot(): name the inner one with load(dot(a, b))");
    if constexpr (kIsTransposed<A>)
      return a.tile;
    else
      return Tile<typename A::Element>(detail::operand(a));
  }

  template <class Op, class... X>
  static auto map_values(const X&... x) {
    return map_values<Op>(std::index_sequence_for<X...>{}, x...);
  }
  template <class Op, std::size_t... I, class... X>
  static auto map_values(std::index_sequence<I...>, const X&... x) {
    using S = ScalarOf<X...>;
    S held[sizeof...(X)]{};  // scalars, each in a slot of its own
    return map_lanes<Op>(detail::lane_of<S>(x, held[I])...);
  }

  template <class Op, class... T>
  static auto map_lanes(const detail::Lane<T>&... lanes) {
    const int rows = std::max({lanes.rows...});
    const int cols = std::max({lanes.cols...});
    if ((((lanes.rows != rows && lanes.rows != 1) || (lanes.cols != cols && lanes.cols != 1)) ||
         ...)) {
      fail_shapes(Op::info.name, {{lanes.rows, lanes.cols}...});
    }
    using R = decltype(apply_element<Op>(std::declval<T>()...));
    FreshTile<R> result(rows, cols);
    bool applied = false;
    if constexpr (GpuFunction<Op>::kKnown) {
      applied = op_state.profile == Profile::gpu_hopper;
      if (applied) detail::apply_rows<GpuFunction<Op>>(result.data(), rows, cols, lanes...);
    }
    if (!applied) detail::apply_rows<Op>(result.data(), rows, cols, lanes...);
    const std::int64_t elems = std::int64_t{rows} * cols;
    op_state.flops += elems * Op::info.flops;
    if constexpr (Op::info.transcendental) op_state.transcendentals += elems;
    if (op_state.trap_nan) detail::trap_nan(Op::info.name, result.data(), rows, cols, lanes...);
    StorageHandle kept;
    if (op_state.error_model != nullptr) {
      static const bounds::Rule& rule = bounds::rule_of(Op::info.name);
      if (applied) {
        FreshTile<R> exact(rows, cols);
        detail::apply_rows<Op>(exact.data(), rows, cols, lanes...);
        kept = bounds::around(
            result.data(), exact.data(), elems,
            bounds::elementwise(rule, *op_state.error_model, exact.view(), {lanes.view()...}));
      } else {
        kept = bounds::elementwise(rule, *op_state.error_model, result.view(), {lanes.view()...});
      }
    }
    return std::move(result).finish(std::move(kept));
  }
};

}  // namespace tessera
