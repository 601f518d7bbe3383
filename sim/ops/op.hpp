// How an op is declared, and how a body calls it on whatever tiles the build uses.
//
// An op is a struct with `info` and a scalar `apply`: its whole meaning. A body calls a function of
// the op's name; that function hands the op to the tiles' backend (the interpreter's
// sim/tiles/tile.hpp, or the CUDA build's), which applies it element by element with the
// broadcasting below. Nothing else knows what an op computes.
//
// Broadcasting: operands agree in rows and in columns, or have 1 there; a scalar is a 1 x 1 operand
// converted to the tile's type. Element types must agree: cast<T>() first. bf16, f16 and fp8
// arithmetic is done in f32 and rounded once. Integers wrap, with a sign too.
//
// Elementary functions of f32 are correctly rounded (sim/ops/exact), those of f64 are the C++
// library's.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "memory_model/dtype.hpp"
#include "memory_model/tessera_fn.hpp"

namespace tessera {

struct OpInfo {
  const char* name;
  const char* math;
  const char* mosaic;  ///< the op of a Mosaic module with this meaning, "" where there is none
  int arity;
  double max_ulp;               ///< of the f32 result, against the exact one
  int flops = 1;                ///< per element
  bool transcendental = false;  ///< counted apart
};

/// A tile of some backend: has `using Backend`, `Element`, and members rows and cols.
template <class X>
concept TileLike = requires {
  typename std::remove_cvref_t<X>::Backend;
  typename std::remove_cvref_t<X>::Element;
};

template <class X>
concept ScalarLike =
    std::is_arithmetic_v<std::remove_cvref_t<X>> || kIsSmallFloat<std::remove_cvref_t<X>>;

/// A place that holds a number, an element of SMEM scratch: its value stands beside tiles as a
/// scalar does.
template <class X>
concept ScalarPlace = requires {
  typename std::remove_cvref_t<X>::ScalarType;
};

/// A number that a build knows only when the kernel runs: it stands beside tiles as a scalar does
/// (mosaic/number.hpp). Elsewhere program ids are ints.
template <class X>
inline constexpr bool kIsTracedNumber = false;

namespace detail {
template <class... X>
struct FirstBackend;
template <class X, class... Rest>
struct FirstBackend<X, Rest...> {
  static auto pick() {
    if constexpr (TileLike<X>)
      return std::type_identity<typename X::Backend>{};
    else
      return FirstBackend<Rest...>::pick();
  }
};
}  // namespace detail

template <class... X>
using BackendOf = typename decltype(detail::FirstBackend<X...>::pick())::type;

/// Operands of an elementwise op: tiles and scalars, at least one tile.
template <class... X>
concept Operands = ((TileLike<X> || ScalarLike<X> || ScalarPlace<X> ||
                     kIsTracedNumber<std::remove_cvref_t<X>>)&&...) &&
                   (TileLike<X> || ...);

namespace detail {
/// The element type of the first tile that is not a mask; bool if there is none.
template <class... X>
struct ValueType {
  using type = bool;
};
template <class X, class... Rest>
struct ValueType<X, Rest...> {
  static auto pick() {
    if constexpr (TileLike<X>) {
      if constexpr (!std::is_same_v<typename X::Element, bool>) {
        return std::type_identity<typename X::Element>{};
      } else {
        return std::type_identity<typename ValueType<Rest...>::type>{};
      }
    } else {
      return std::type_identity<typename ValueType<Rest...>::type>{};
    }
  }
  using type = typename decltype(pick())::type;
};
}  // namespace detail

/// What an op's scalars are converted to: the type of its tiles, masks aside; float beside masks
/// alone.
template <class... X>
using ScalarOf =
    std::conditional_t<(TileLike<X> && ...) ||
                           !std::is_same_v<typename detail::ValueType<X...>::type, bool>,
                       typename detail::ValueType<X...>::type, float>;

/// What arithmetic of integers is done in: unsigned words, so that it wraps in every build.
template <class T>
using Wrapping =
    std::conditional_t<!std::is_integral_v<T>, T,
                       std::conditional_t<(sizeof(T) > 4), std::uint64_t, std::uint32_t>>;

namespace detail {
template <class A, class... B>
inline constexpr bool kNoOtherFloat = ((!kIsFloat<A> || !kIsFloat<B> || std::is_same_v<A, B>)&&...);
}  // namespace detail

/// Op on the values of one position: its apply, small floats through f32 and rounded once.
template <class Op, class... T>
TESSERA_FN constexpr auto apply_element(T... v) {
  if constexpr ((kIsSmallFloat<T> || ...)) {
    static_assert((detail::kNoOtherFloat<T, T...> && ...), "element types differ: cast<T>(value)");
    const auto widen = []<class V>(V x) {
      if constexpr (kIsSmallFloat<V>)
        return static_cast<float>(x);
      else
        return x;
    };
    const auto result = Op::apply(widen(v)...);
    if constexpr (std::is_same_v<std::remove_const_t<decltype(result)>, bool>) {
      return result;
    } else {
      using First = std::tuple_element_t<0, std::tuple<T...>>;
      using Last = std::tuple_element_t<sizeof...(T) - 1, std::tuple<T...>>;
      return std::conditional_t<kIsSmallFloat<Last>, Last, First>(result);
    }
  } else {
    return Op::apply(v...);
  }
}

}  // namespace tessera
