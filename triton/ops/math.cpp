// tt.* that compute element by element.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "program/elements.hpp"
#include "program/rules.hpp"
#include "sim/ops/all.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

/// Of two numbers, as fminf and fmaxf: the other where one is NaN.
template <class T>
T smaller(T a, T b) {
  return a != a ? b : b != b ? a : b < a ? b : a;
}
template <class T>
T larger(T a, T b) {
  return a != a ? b : b != b ? a : a < b ? b : a;
}

struct Clamp {
  template <class T>
  static T apply(T x, T low, T high) {
    return smaller(larger(x, low), high);
  }
};
struct ClampNan {
  template <class T>
  static T apply(T x, T low, T high) {
    return x != x ? x : smaller(larger(x, low), high);
  }
};
constexpr BoundRule kClamped{BoundRule::Kind::rule, "clamp"};
void plan_clamp(Planner& p, const Operation& op) {
  if (p.integer(op, "propagateNan") == 0)
    float_rule<Clamp, 3>(2, false, kClamped)(p, op);
  else
    float_rule<ClampNan, 3>(2, false, kClamped)(p, op);
}

struct HighProduct {
  template <class T>
  static T apply(T a, T b) {
    using U = std::make_unsigned_t<T>;
    using Wide = std::conditional_t<sizeof(T) == 8, unsigned __int128, std::uint64_t>;
    return static_cast<T>(
        (static_cast<Wide>(static_cast<U>(a)) * static_cast<Wide>(static_cast<U>(b))) >>
        (8 * sizeof(T)));
  }
};

/// Between floats; to fp8 with saturation, as cvt.satfinite: infinities are the largest number too.
template <class To, class From>
void run_convert(std::byte* out, const std::byte* const* in, std::int64_t n) {
  To* const __restrict to = reinterpret_cast<To*>(out);
  const From* const from = reinterpret_cast<const From*>(in[0]);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<To, f8e4m3fn>) {
      const float x = convert<float>(from[i]);
      to[i] = convert<To>(x > 448.f ? 448.f : x < -448.f ? -448.f : x);
    } else if constexpr (std::is_same_v<To, f8e5m2>) {
      const float x = convert<float>(from[i]);
      to[i] = convert<To>(x > 57344.f ? 57344.f : x < -57344.f ? -57344.f : x);
    } else {
      to[i] = convert<To>(from[i]);
    }
  }
}
/// The same toward zero: of two neighbours the one nearer to it, whose bits are those less one.
template <class To, class From>
void run_cut(std::byte* out, const std::byte* const* in, std::int64_t n) {
  using Bits = std::conditional_t<
      sizeof(To) == 1, std::uint8_t,
      std::conditional_t<sizeof(To) == 2, std::uint16_t,
                         std::conditional_t<sizeof(To) == 4, std::uint32_t, std::uint64_t>>>;
  run_convert<To, From>(out, in, n);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = convert<double>(reinterpret_cast<const From*>(in[0])[i]);
    const auto y = convert<double>(reinterpret_cast<const To*>(out)[i]);
    if (std::fabs(y) > std::fabs(x)) --reinterpret_cast<Bits*>(out)[i];
  }
}

void plan_fp_to_fp(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const DType from = p.type(op.operands[0]).dtype;
  const DType to = p.type(op.results[0]).dtype;
  const std::int64_t rounding = p.integer_or(op, "rounding", 1);
  ElementOp e;
  e.result = to;
  e.poison = PoisonRule::same;
  with_real(to, [&](auto to_tag) {
    with_real(from, [&](auto from_tag) {
      using To = typename decltype(to_tag)::type;
      using From = typename decltype(from_tag)::type;
      e.kernel = rounding == 1 ? run_convert<To, From> : run_cut<To, From>;
    });
  });
  if (e.kernel == nullptr) p.unsupported(op, "of these types");
  if (rounding == 1) e.bound.kind = BoundRule::Kind::cast;
  p.element_op(op, e, op.operands);
}

using Plan = std::function<void(Planner&, const Operation&)>;

/// A rule of MLIR's arith or math, by name.
const Rule& shared(std::string_view name) {
  const Rules rules = name.starts_with("arith.") ? program::arith_rules() : program::math_rules();
  return *std::ranges::find_if(rules, [&](const Rule& r) { return name == r.name; });
}

/// Ordered and not equal, which the shared rule has as TPUs do.
struct OrderedNotEqual {
  static bool apply(double a, double b) { return a < b || b < a; }
};
void plan_cmpf(Planner& p, const Operation& op) {
  constexpr std::int64_t kOne = 6;
  if (p.integer(op, "predicate") != kOne) return shared("arith.cmpf").plan(p, op);
  p.expect(op, 2, 1);
  ElementOp e;
  e.result = DType::boolean;
  e.flops = 1;
  const DType d = p.type(op.operands[0]).dtype;
  p.expect_type(op, d);
  with_real(d, [&](auto tag) {
    using T = typename decltype(tag)::type;
    e.kernel = [](std::byte* out, const std::byte* const* in, std::int64_t n) {
      const auto* const a = reinterpret_cast<const T*>(in[0]);
      const auto* const b = reinterpret_cast<const T*>(in[1]);
      for (std::int64_t i = 0; i < n; ++i)
        reinterpret_cast<bool*>(out)[i] =
            OrderedNotEqual::apply(convert<double>(a[i]), convert<double>(b[i]));
    };
  });
  if (e.kernel == nullptr) p.unsupported(op, "of these types");
  p.element_op(op, e, op.operands);
}
/// Of i1, which has one bit: `of_bits` is what the op is then.
Plan of_bits_too(const char* name, const char* of_bits) {
  return [=](Planner& p, const Operation& op) {
    const bool bits = op.results.size() == 1 && p.type(op.results[0]).dtype == DType::boolean;
    shared(bits ? of_bits : name).plan(p, op);
  };
}
/// The sign of an i1 is its only bit: of two, 1 is the smaller one, and -1 as a float.
void plan_cmpi(Planner& p, const Operation& op) {
  const std::int64_t predicate = p.integer(op, "predicate");
  Operation turned = op;
  if (op.operands.size() == 2 && p.type(op.operands[0]).dtype == DType::boolean && predicate >= 2 &&
      predicate <= 5)
    std::swap(turned.operands[0], turned.operands[1]);
  shared("arith.cmpi").plan(p, turned);
}
void plan_sitofp(Planner& p, const Operation& op) {
  if (op.operands.size() != 1 || p.type(op.operands[0]).dtype != DType::boolean)
    return shared("arith.sitofp").plan(p, op);
  ElementOp e;
  e.result = p.type(op.results.at(0)).dtype;
  e.poison = PoisonRule::same;
  e.flops = 1;
  with_real(e.result, [&](auto tag) {
    using T = typename decltype(tag)::type;
    e.kernel = [](std::byte* out, const std::byte* const* in, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i)
        reinterpret_cast<T*>(out)[i] =
            convert<T>(reinterpret_cast<const bool*>(in[0])[i] ? -1.f : 0.f);
    };
  });
  if (e.kernel == nullptr) p.unsupported(op, "to no float");
  p.element_op(op, e, op.operands);
}

}  // namespace

Rules math_rules() {
  static const std::vector<Rule> rules = {
      {"arith.addi", "a + b, wraps", true, of_bits_too("arith.addi", "arith.xori")},
      {"arith.subi", "a - b, wraps", true, of_bits_too("arith.subi", "arith.xori")},
      {"arith.muli", "a * b, wraps", true, of_bits_too("arith.muli", "arith.andi")},
      // Triton's compiler fuses products of f16 and bf16 with sums.
      {"arith.mulf", "a * b", true,
       float_rule<Mul, 2>(1, false, {BoundRule::Kind::rule, "mul_of_any"})},
      {"arith.cmpf", "compares floats by predicate", true, plan_cmpf},
      {"arith.cmpi", "compares integers by predicate", true, plan_cmpi},
      {"arith.sitofp", "integer to float", true, plan_sitofp},
      {"tt.clampf", "between two bounds", true, plan_clamp},
      {"tt.mulhiui", "the high half of a product without sign", true,
       integer_rule<HighProduct, 2>()},
      {"tt.precise_sqrt", "the square root, correctly rounded", true, float_rule<Sqrt, 1>()},
      {"tt.precise_divf", "a / b, correctly rounded", true, float_rule<Div, 2>()},
      {"tt.fp_to_fp", "another float type; saturates to fp8", true, plan_fp_to_fp},
      {"tt.extern_elementwise", "a function of libdevice, by name", true, plan_libdevice},
  };
  return rules;
}

}  // namespace tessera::triton
