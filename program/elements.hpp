// Kernels of elementwise ops from their scalar meaning (sim/ops, or a struct with `apply`).
//
// Small floats are computed in f32 and rounded once; packed integers in i8 and wrapped. f64 only
// where an op's `apply` takes it.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstring>

#include "program/planner.hpp"
#include "sim/ops/op.hpp"

namespace tessera::program {

template <class... T>
using FirstSmallInt = std::tuple_element_t<
    0,
    decltype(std::tuple_cat(std::conditional_t<kIsSmallInt<T>, std::tuple<T>, std::tuple<>>{}...))>;

/// Op::apply on T..., over n elements. Flattened: a call in the loop would keep it from being
/// vectorised.
template <class Op, class... T>
[[gnu::flatten]] void run_elements(std::byte* out, const std::byte* const* in, std::int64_t n) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto one = [](auto... v) {
      if constexpr ((kIsSmallInt<T> || ...)) {
        const auto widen = []<class V>(V x) {
          if constexpr (kIsSmallInt<V>)
            return static_cast<std::int8_t>(static_cast<std::int64_t>(x));
          else
            return x;
        };
        const auto r = Op::apply(widen(v)...);
        if constexpr (std::is_same_v<std::remove_const_t<decltype(r)>, std::int8_t>)
          return FirstSmallInt<T...>(static_cast<std::int64_t>(r));
        else
          return r;
      } else {
        return apply_element<Op>(v...);
      }
    };
    using R = decltype(one(std::declval<T>()...));
    R* const __restrict to = reinterpret_cast<R*>(out);
    const std::tuple<const T*...> from{reinterpret_cast<const T*>(in[I])...};
    for (std::int64_t i = 0; i < n; ++i) to[i] = one(std::get<I>(from)[i]...);
  }
  (std::index_sequence_for<T...>{});
}

/// Of an op that costs more than a look at its operand. A TPU's kernels hold a column as rows of
/// equal values, one in each lane: such a row is computed once.
template <class Op, class T>
void run_by_rows(std::byte* out, const std::byte* const* in, std::int64_t n) {
  constexpr std::int64_t kColumns = 128;
  constexpr std::int64_t kRow = kColumns * std::int64_t{sizeof(T)};
  const auto is_one_value = [](const std::byte* row) {
    return std::memcmp(row, row + sizeof(T), kRow - sizeof(T)) == 0;
  };
  if (n % kColumns != 0 || !is_one_value(in[0])) return run_elements<Op, T>(out, in, n);
  for (std::int64_t at = 0; at < n; at += kColumns) {
    const std::byte* const row = in[0] + at * std::int64_t{sizeof(T)};
    std::byte* const to = out + at * std::int64_t{sizeof(T)};
    const bool once = is_one_value(row);
    run_elements<Op, T>(to, &row, once ? 1 : kColumns);
    if (once) std::fill_n(reinterpret_cast<T*>(to) + 1, kColumns - 1, *reinterpret_cast<T*>(to));
  }
}

/// Calls f with the TypeTag of a float dtype, f64 apart; false if it is none.
template <class F>
bool with_float(DType d, F&& f) {
  return visit_dtype(d, [&]<class T>(TypeTag<T> tag) {
    if constexpr (kIsSmallFloat<T> || std::is_same_v<T, float>) {
      f(tag);
      return true;
    } else {
      return false;
    }
  });
}
/// The same with f64.
template <class F>
bool with_real(DType d, F&& f) {
  if (d != DType::f64) return with_float(d, f);
  f(TypeTag<double>{});
  return true;
}
/// Of an integer dtype, i1 apart.
template <class F>
bool with_integer(DType d, F&& f) {
  return visit_dtype(d, [&]<class T>(TypeTag<T> tag) {
    if constexpr (std::is_same_v<T, i4> || std::is_same_v<T, i2> ||
                  (std::is_integral_v<T> && std::is_signed_v<T>)) {
      f(tag);
      return true;
    } else {
      return false;
    }
  });
}

/// The bounds of an op of sim/ops; of any other those that exact operands have.
template <class Op>
constexpr BoundRule bounds_of() {
  if constexpr (requires { Op::info.name; })
    return {BoundRule::Kind::rule, Op::info.name};
  else
    return {};
}

/// Op::apply of kArity operands of type T gives a T. Not so of f64, where it is of f32 alone.
template <class Op, class T, int kArity>
inline constexpr bool kGives = []<std::size_t... I>(std::index_sequence<I...>) {
  return !std::is_same_v<T, double> ||
         std::is_same_v<decltype(Op::apply((static_cast<void>(I), double{})...)), double>;
}
(std::make_index_sequence<kArity>{});

/// An op whose operands and result have one float type.
template <class Op, int kArity>
auto float_rule(int flops = 1, bool transcendental = false, BoundRule bound = bounds_of<Op>()) {
  return [=](Planner& p, const Operation& op) {
    p.expect(op, kArity, 1);
    ElementOp e;
    e.result = p.type(op.results[0]).dtype;
    p.expect_type(op, e.result);
    e.flops = flops;
    e.transcendental = transcendental;
    e.bound = bound;
    with_real(e.result, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (kGives<Op, T, kArity>) {
        if constexpr (kArity == 1)
          e.kernel = transcendental ? run_by_rows<Op, T> : run_elements<Op, T>;
        else if constexpr (kArity == 2)
          e.kernel = run_elements<Op, T, T>;
        else
          e.kernel = run_elements<Op, T, T, T>;
      }
    });
    if (e.kernel == nullptr) p.unsupported(op, "its element type is no float that is built");
    p.element_op(op, e, op.operands);
  };
}

/// An op whose operands and result have one integer type. `kBoolean`: i1 too.
/// Op::kRegular, if it has one: of regular operands; of `kBoolean` those of i1.
/// `mask`: of i1, the sim op whose bounds it has.
template <class Op, int kArity, bool kBoolean = false>
auto integer_rule(PoisonRule poison = PoisonRule::any, const char* mask = nullptr) {
  return [=](Planner& p, const Operation& op) {
    p.expect(op, kArity, 1);
    ElementOp e;
    e.result = p.type(op.results[0]).dtype;
    p.expect_type(op, e.result);
    e.poison =
        poison == PoisonRule::disjunction && e.result != DType::boolean ? PoisonRule::any : poison;
    bool known = with_integer(e.result, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (kArity == 1)
        e.kernel = run_elements<Op, T>;
      else
        e.kernel = run_elements<Op, T, T>;
    });
    if constexpr (requires { Op::kRegular; }) {
      if (kBoolean == (e.result == DType::boolean)) e.regular = Op::kRegular;
    }
    if constexpr (kBoolean && kArity == 2) {
      if (e.result == DType::boolean) {
        e.kernel = run_elements<Op, bool, bool>;
        e.bound = {BoundRule::Kind::rule, mask};
        known = true;
      }
    }
    if (!known) p.unsupported(op, "its element type is no integer that is built");
    p.element_op(op, e, op.operands);
  };
}

}  // namespace tessera::program
