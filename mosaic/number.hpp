// Numbers of a traced body: program ids, elements of prefetched arrays, devices, and what is
// computed from them.
//
// A Number is an i32 of the module, or known; the range that it lies in is kept, so that what never
// happens (`if ((i + 1) * rows > m)` where rows divides m) leaves no trace. A Number is no int: a
// body says `const auto i = env.program_id(0)`. Truth is what comparing gives; `if` asks it.
// Lanes are numbers that differ along a tile, as a predicate of where_at and store_at gets them.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>

#include "mosaic/trace.hpp"
#include "sim/body/smem.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/op.hpp"

namespace tessera::mosaic {

/// Throws unsupported.
[[noreturn]] void refuse_elements(const char* array, DType dtype);

struct Number {
  Value value = kNoValue;  ///< none if it is known
  std::int64_t lo = 0;
  std::int64_t hi = 0;

  bool known() const { return lo == hi; }
  Value i32() const;
  Value index() const;
  /// An element of a prefetched array (sim/body/smem.hpp).
  template <class T>
  auto element_of(const Smem<T>& array) const;

 private:
  Value word_of(const void* data, int size, const char* name, const char* type) const;
  Number load(const int* data, int size, const char* name) const;
};

/// An f32 of a prefetched array: it stands beside tiles of f32.
struct Real {
  Value value = kNoValue;  ///< none if it is known
  float known_value = 0;
};

template <class T>
auto Number::element_of(const Smem<T>& array) const {
  if constexpr (std::is_same_v<T, int>) {
    return load(array.data, array.size, array.name);
  } else if constexpr (std::is_same_v<T, float>) {
    if (known() && lo >= 0 && lo < array.size) return Real{kNoValue, array.data[lo]};
    return Real{word_of(array.data, array.size, array.name, "f32"), 0};
  } else {
    refuse_elements(array.name, kDTypeOf<T>);
    return Number{};
  }
}

}  // namespace tessera::mosaic
namespace tessera {
template <std::derived_from<mosaic::Number> X>
inline constexpr bool kIsTracedNumber<X> = true;
template <>
inline constexpr bool kIsTracedNumber<mosaic::Real> = true;
}  // namespace tessera
namespace tessera::mosaic {

inline Number known(std::int64_t n) { return {kNoValue, n, n}; }
/// A value that lies in [lo, hi].
inline Number number_in(Value v, std::int64_t lo, std::int64_t hi) { return {v, lo, hi}; }

struct Truth {
  Value value = kNoValue;
  bool is_known = false;
  bool known_value = false;
  /// Asks which arm to take.
  explicit operator bool() const { return is_known ? known_value : trace().ask(value); }
  Value i1() const;
};
inline Truth known_truth(bool b) { return {kNoValue, true, b}; }

struct Lanes {
  Value value;
  int rows;
  int cols;
};
struct LaneMask {
  Value value;
  int rows;
  int cols;
};

template <class T>
concept IsNumber = std::derived_from<std::remove_cvref_t<T>, Number>;
template <class T>
concept IsTruth = std::same_as<std::remove_cvref_t<T>, Truth>;
template <class T>
concept IsLanes = std::same_as<std::remove_cvref_t<T>, Lanes>;
template <class T>
concept IsMask = std::same_as<std::remove_cvref_t<T>, LaneMask>;
template <class T>
concept IsInt = std::is_convertible_v<T, int>;
/// One of two is traced, the other a number too.
template <class A, class B>
concept Numbers = (IsNumber<A> && (IsNumber<B> || IsInt<B>)) || (IsInt<A> && IsNumber<B>);
template <class A, class B>
concept SomeLanes = (IsLanes<A> && (IsLanes<B> || IsNumber<B> || IsInt<B>)) ||
                    ((IsNumber<A> || IsInt<A>)&&IsLanes<B>);
template <class A, class B>
concept Truths = (IsTruth<A> && (IsTruth<B> || std::same_as<B, bool>)) ||
                 (std::same_as<A, bool> && IsTruth<B>);
template <class A, class B>
concept Masks = (IsMask<A> && (IsMask<B> || IsTruth<B> || std::same_as<B, bool>)) ||
                ((IsTruth<A> || std::same_as<A, bool>)&&IsMask<B>);

inline Number number(Number n) { return n; }
inline Number number(int n) { return known(n); }
inline Truth truth(Truth t) { return t; }
inline Truth truth(bool b) { return known_truth(b); }

enum class Arithmetic : std::uint8_t { add, subtract, multiply, divide, remainder, least, most };
enum class Comparison : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };

Number compute(Arithmetic op, Number a, Number b);
Truth compare(Comparison op, Number a, Number b);
Truth both(Truth a, Truth b);
Truth either(Truth a, Truth b);
Truth negated(Truth a);

/// Lanes of an operand: those that it has, or the same number everywhere.
Lanes spread(Number n, int rows, int cols);
LaneMask spread(Truth t, int rows, int cols);
Lanes compute(Arithmetic op, Lanes a, Lanes b);
LaneMask compare(Comparison op, Lanes a, Lanes b);
LaneMask both(LaneMask a, LaneMask b);
LaneMask either(LaneMask a, LaneMask b);
LaneMask negated(LaneMask a);
/// Rows, or columns, of a tile, from 0.
Lanes row_numbers(int rows, int cols);
Lanes col_numbers(int rows, int cols);

template <class A, class B>
Lanes lanes_beside(const A& a, const B& other) {
  if constexpr (IsLanes<A>)
    return a;
  else
    return spread(number(a), other.rows, other.cols);
}
template <class A, class B>
LaneMask mask_beside(const A& a, const B& other) {
  if constexpr (IsMask<A>)
    return a;
  else
    return spread(truth(a), other.rows, other.cols);
}

template <class A, class B>
requires Numbers<A, B> Number operator+(A a, B b) {
  return compute(Arithmetic::add, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Number operator-(A a, B b) {
  return compute(Arithmetic::subtract, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Number operator*(A a, B b) {
  return compute(Arithmetic::multiply, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Number operator/(A a, B b) {
  return compute(Arithmetic::divide, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Number operator%(A a, B b) {
  return compute(Arithmetic::remainder, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Number lesser(A a, B b) {
  return compute(Arithmetic::least, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Number greater(A a, B b) {
  return compute(Arithmetic::most, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Number ceil_div(A a, B b) { return (number(a) + (number(b) - 1)) / b; }

template <class A, class B>
requires Numbers<A, B> Truth operator==(A a, B b) {
  return compare(Comparison::equal, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Truth operator!=(A a, B b) {
  return compare(Comparison::not_equal, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Truth operator<(A a, B b) {
  return compare(Comparison::less, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Truth operator<=(A a, B b) {
  return compare(Comparison::less_equal, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Truth operator>(A a, B b) {
  return compare(Comparison::greater, number(a), number(b));
}
template <class A, class B>
requires Numbers<A, B> Truth operator>=(A a, B b) {
  return compare(Comparison::greater_equal, number(a), number(b));
}

// Both sides of && and || are evaluated: they have no effects.
template <class A, class B>
requires Truths<A, B> Truth operator&&(A a, B b) { return both(truth(a), truth(b)); }
template <class A, class B>
requires Truths<A, B> Truth operator||(A a, B b) { return either(truth(a), truth(b)); }
inline Truth operator!(Truth a) { return negated(a); }

template <class A, class B>
requires SomeLanes<A, B> Lanes operator+(A a, B b) {
  return compute(Arithmetic::add, lanes_beside(a, b), lanes_beside(b, a));
}
template <class A, class B>
requires SomeLanes<A, B> Lanes operator-(A a, B b) {
  return compute(Arithmetic::subtract, lanes_beside(a, b), lanes_beside(b, a));
}
template <class A, class B>
requires SomeLanes<A, B> Lanes operator*(A a, B b) {
  return compute(Arithmetic::multiply, lanes_beside(a, b), lanes_beside(b, a));
}
template <class A, class B>
requires SomeLanes<A, B> Lanes operator/(A a, B b) {
  return compute(Arithmetic::divide, lanes_beside(a, b), lanes_beside(b, a));
}
template <class A, class B>
requires SomeLanes<A, B> Lanes operator%(A a, B b) {
  return compute(Arithmetic::remainder, lanes_beside(a, b), lanes_beside(b, a));
}
template <class A, class B>
requires SomeLanes<A, B> LaneMask operator==(A a, B b) {
  return compare(Comparison::equal, lanes_beside(a, b), lanes_beside(b, a));
}
template <class A, class B>
requires SomeLanes<A, B> LaneMask operator!=(A a, B b) {
  return compare(Comparison::not_equal, lanes_beside(a, b), lanes_beside(b, a));
}
template <class A, class B>
requires SomeLanes<A, B> LaneMask operator<(A a, B b) {
  return compare(Comparison::less, lanes_beside(a, b), lanes_beside(b, a));
}
template <class A, class B>
requires SomeLanes<A, B> LaneMask operator<=(A a, B b) {
  return compare(Comparison::less_equal, lanes_beside(a, b), lanes_beside(b, a));
}
template <class A, class B>
requires SomeLanes<A, B> LaneMask operator>(A a, B b) {
  return compare(Comparison::greater, lanes_beside(a, b), lanes_beside(b, a));
}
template <class A, class B>
requires SomeLanes<A, B> LaneMask operator>=(A a, B b) {
  return compare(Comparison::greater_equal, lanes_beside(a, b), lanes_beside(b, a));
}
template <class A, class B>
requires Masks<A, B> LaneMask operator&&(A a, B b) {
  return both(mask_beside(a, b), mask_beside(b, a));
}
template <class A, class B>
requires Masks<A, B> LaneMask operator||(A a, B b) {
  return either(mask_beside(a, b), mask_beside(b, a));
}
inline LaneMask operator!(LaneMask a) { return negated(a); }

/// A block index of traced ids, as at() gives it.
template <std::size_t kCount>
struct TracedIndex {
  static constexpr int kRank = static_cast<int>(kCount);
  std::array<Number, kCount> index;
};
template <class... I>
requires(IsNumber<I> || ...) auto at(I... i) { return TracedIndex<sizeof...(I)>{{number(i)...}}; }
/// Of a batched kernel (sim/body/batched.hpp).
template <std::size_t kCount>
TracedIndex<kCount + 1> prepend_index(Number b, const TracedIndex<kCount>& inner) {
  TracedIndex<kCount + 1> index;
  index.index[0] = b;
  std::copy(inner.index.begin(), inner.index.end(), index.index.begin() + 1);
  return index;
}
template <class... I>
auto prepend_index(Number b, const BlockIndex<I...>& inner) {
  TracedIndex<sizeof...(I) + 1> index;
  index.index[0] = b;
  for (std::size_t d = 0; d < sizeof...(I); ++d) index.index[d + 1] = known(inner.index[d]);
  return index;
}

}  // namespace tessera::mosaic
