// Tiles of a traced body: the third host backend of the ops, beside the interpreter's
// (sim/tiles/tile.hpp) and the counter's.
//
// A tile is a value of the module, a vector of two dims. Shapes, element types and broadcasting are
// those of sim/ops/op.hpp; an op becomes the operation that its OpInfo::mosaic names, in f32 where
// its operands are narrower floats, as everywhere. A product of f32 asks for fp32 precision: a
// body that wants the MXU's bf16 casts. Errors: shape-mismatch, unsupported.
#pragma once

#include "mosaic/number.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/op.hpp"

namespace tessera {
/// Base of traced tiles: by it, bodies of any namespace find the ops.
struct Traced {};
}  // namespace tessera

namespace tessera::mosaic {

struct Emitter;

/// A tile without its type; a scalar operand has no value but a number.
struct AnyTile {
  Value value = kNoValue;
  int rows = 1;
  int cols = 1;
  DType dtype = DType::f32;
  double number = 0;
  bool scalar = false;  ///< the value is no vector: the same everywhere
};

/// Throws shape-mismatch.
[[noreturn]] void fail_shapes(const char* op, std::initializer_list<std::pair<int, int>> extents);

template <class T>
struct Tile : Traced {
  using Backend = Emitter;
  using Element = T;
  int rows = 0;
  int cols = 0;
  Value value = kNoValue;
  Tile& operator=(const Tile&) & = default;
  T operator()(int, int) const { refuse("a decision by an element of a tile"); }
};
template <class T>
Tile<T> tile_of(const AnyTile& t) {
  return {{}, t.rows, t.cols, t.value};
}

template <class T>
struct TransposedTile : Traced {
  using Backend = Emitter;
  using Element = T;
  int rows = 0;
  int cols = 0;
  Value value = kNoValue;  ///< not transposed
};

template <class T>
struct DotExpression : Traced {
  using Backend = Emitter;
  using Element = T;
  using Accumulator = std::conditional_t<kIsFloat<T>, float, std::int32_t>;
  int rows;
  int cols;
  AnyTile a;
  AnyTile b;
  bool a_transposed;
  bool b_transposed;
  DotExpression(int r, int c, AnyTile left, AnyTile right, bool left_transposed,
                bool right_transposed)
      : rows(r),
        cols(c),
        a(left),
        b(right),
        a_transposed(left_transposed),
        b_transposed(right_transposed) {}
  DotExpression(const DotExpression&) = delete;
  DotExpression& operator=(const DotExpression&) = delete;
};

template <class X>
inline constexpr bool kIsDot = false;
template <class T>
inline constexpr bool kIsDot<DotExpression<T>> = true;
template <class X>
inline constexpr bool kIsTransposed = false;
template <class T>
inline constexpr bool kIsTransposed<TransposedTile<T>> = true;

// What the ops come to, without types.
AnyTile elementwise(const OpInfo& info, DType result, std::vector<AnyTile> operands);
AnyTile cast(const AnyTile& a, DType to);
/// The type of a vector with a tile's extents: "vector<8x128xf32>".
std::string type_of(const AnyTile& t, DType dtype);
AnyTile reduce_rows(const OpInfo& info, const AnyTile& a);
AnyTile reduce_cols(const OpInfo& info, const AnyTile& a);
/// The same bits.
AnyTile bitcast(const AnyTile& a, DType to);
/// `rows`: one below the other, else side by side.
AnyTile concatenated(bool rows, const AnyTile& a, const AnyTile& b);
AnyTile rolled(bool rows, const AnyTile& a, int n);
/// Each row, or each column, that many times.
AnyTile repeated(bool rows, const AnyTile& a, int times);
/// One of `parts` equal parts of the rows, or of the columns.
AnyTile part_of(bool rows, const AnyTile& a, int parts, int which);
/// A number that is known when the kernel runs, as a scalar beside tiles of this type.
AnyTile number_beside(Number n, DType dtype);
AnyTile number_beside(Real r, DType dtype);
AnyTile choose(const LaneMask& mask, const AnyTile& a, double otherwise);
AnyTile transposed(const AnyTile& a);
/// sum + a b; a sum without a value is zero.
AnyTile product(const AnyTile& a, bool a_transposed, const AnyTile& b, bool b_transposed,
                const AnyTile& sum);
/// A number everywhere, or a tile repeated along the dims in which it has extent 1.
AnyTile broadcast(const AnyTile& t, int rows, int cols);
/// The same number everywhere.
AnyTile filled(double value, DType dtype, int rows, int cols);

template <class X>
AnyTile any_tile(const X& x) {
  static_assert(
      !kIsDot<X>,
      "dot() is a right-hand side: write *acc += dot(a, b), or name it with load(dot(a, b))");
  static_assert(!kIsTransposed<X>,
                "transpose() is an operand of dot; name it with load(transpose(a))");
  return {x.value, x.rows, x.cols, kDTypeOf<typename X::Element>, 0};
}
template <class S, class X>
AnyTile any_operand(const X& x) {
  if constexpr (ScalarLike<X>)
    return {kNoValue, 1, 1, kDTypeOf<S>, convert<double>(convert<S>(x))};
  else if constexpr (kIsTracedNumber<X>)
    return number_beside(x, kDTypeOf<S>);
  else
    return any_tile(x);
}

/// What keep(r, c) says of every position.
template <class Keep>
LaneMask mask_of(Keep keep, int rows, int cols) {
  const auto held = keep(row_numbers(rows, cols), col_numbers(rows, cols));
  if constexpr (IsMask<decltype(held)>)
    return held;
  else
    return spread(truth(held), rows, cols);
}

struct Emitter {
  template <class Op, class... X>
  static auto map(const X&... x) {
    using S = ScalarOf<X...>;
    using R = decltype(apply_element<Op>(std::declval<ValueOf<X, S>>()...));
    return tile_of<R>(elementwise(Op::info, kDTypeOf<R>, {any_operand<S>(x)...}));
  }

  template <class To, class A>
  static Tile<To> cast(const A& a) {
    return tile_of<To>(mosaic::cast(any_tile(a), kDTypeOf<To>));
  }

  template <class Reduction, class A>
  static auto reduce_rows(const A& a) {
    using T = typename A::Element;
    static_assert(!kIsSmallFloat<T>, "reduce in f32: row_sum(cast<float>(x))");
    return tile_of<T>(mosaic::reduce_rows(Reduction::info, any_tile(a)));
  }

  template <class Reduction, class A>
  static auto reduce_cols(const A& a) {
    using T = typename A::Element;
    static_assert(!kIsSmallFloat<T>, "reduce in f32: col_sum(cast<float>(x))");
    return tile_of<T>(mosaic::reduce_cols(Reduction::info, any_tile(a)));
  }
  template <class Which, class A>
  static Tile<std::int32_t> ids(const A& like) {
    const Lanes lanes =
        Which::kRows ? row_numbers(like.rows, like.cols) : col_numbers(like.rows, like.cols);
    return {{}, like.rows, like.cols, lanes.value};
  }
  template <class T>
  static Tile<T> full(int rows, int cols, T value) {
    return tile_of<T>(filled(convert<double>(value), kDTypeOf<T>, rows, cols));
  }
  template <class To, class A>
  static Tile<To> bitcast(const A& a) {
    return tile_of<To>(mosaic::bitcast(any_tile(a), kDTypeOf<To>));
  }
  template <bool kRows, class A, class B>
  static auto concat(const A& a, const B& b) {
    if (kRows ? a.cols != b.cols : a.rows != b.rows)
      fail_shapes(kRows ? "concat_rows" : "concat_cols", {{a.rows, a.cols}, {b.rows, b.cols}});
    return tile_of<typename A::Element>(concatenated(kRows, any_tile(a), any_tile(b)));
  }
  template <bool kRows, class A>
  static auto roll(const A& a, int n) {
    return tile_of<typename A::Element>(rolled(kRows, any_tile(a), n));
  }
  template <bool kRows, int kTimes, class A>
  static auto repeat(const A& a) {
    return tile_of<typename A::Element>(repeated(kRows, any_tile(a), kTimes));
  }
  template <bool kRows, int kParts, int kWhich, class A>
  static auto part(const A& a) {
    if ((kRows ? a.rows : a.cols) % kParts != 0)
      fail_shapes(kRows ? "split_rows" : "split_cols", {{a.rows, a.cols}});
    return tile_of<typename A::Element>(part_of(kRows, any_tile(a), kParts, kWhich));
  }

  template <class A, class Keep, class B>
  static auto where_at(const A& a, Keep keep, B otherwise) {
    using T = typename A::Element;
    return tile_of<T>(
        choose(mask_of(keep, a.rows, a.cols), any_tile(a), convert<double>(convert<T>(otherwise))));
  }

  template <class A>
  static auto transpose(const A& a) {
    return TransposedTile<typename A::Element>{{}, a.cols, a.rows, any_tile(a).value};
  }

  template <class A, class B>
  static auto dot(const A& a, const B& b) {
    using T = typename A::Element;
    static_assert(std::is_same_v<T, typename B::Element>,
                  "dot of two element types: cast<T>() one of them");
    static_assert(kIsFloat<T> || kIsByte<T>,
                  "dot() is of floats and 8-bit integers: cast<T>() first");
    if (a.cols != b.rows) fail_shapes("dot", {{a.rows, a.cols}, {b.rows, b.cols}});
    return DotExpression<T>(a.rows, b.cols, factor(a), factor(b), kIsTransposed<A>,
                            kIsTransposed<B>);
  }

  template <class X>
  static auto load(X&& x) {
    using Plain = std::remove_cvref_t<X>;
    if constexpr (kIsDot<Plain>) {
      static_assert(!std::is_lvalue_reference_v<X>, "wrap the dot() itself: load(dot(a, b))");
      using Acc = typename Plain::Accumulator;
      return tile_of<Acc>(product(x.a, x.a_transposed, x.b, x.b_transposed,
                                  {kNoValue, x.rows, x.cols, kDTypeOf<Acc>, 0}));
    } else if constexpr (kIsTransposed<Plain>) {
      return tile_of<typename Plain::Element>(
          transposed({x.value, x.cols, x.rows, kDTypeOf<typename Plain::Element>, 0}));
    } else {
      return tile_of<typename Plain::Element>(any_tile(x));
    }
  }

 private:
  template <class A>
  static AnyTile factor(const A& a) {
    static_assert(!kIsDot<A>, "a dot() of a dot(): name the inner one with load(dot(a, b))");
    if constexpr (kIsTransposed<A>)
      return {a.value, a.cols, a.rows, kDTypeOf<typename A::Element>, 0};
    else
      return any_tile(a);
  }
  template <class X, class S>
  static auto value_type() {
    if constexpr (ScalarLike<X> || kIsTracedNumber<X>)
      return std::type_identity<S>{};
    else
      return std::type_identity<typename X::Element>{};
  }
  template <class X, class S>
  using ValueOf = typename decltype(value_type<X, S>())::type;
};

}  // namespace tessera::mosaic
