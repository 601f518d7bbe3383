// tt.* that compute element by element, and libdevice's functions by name.
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
float smaller(float a, float b) { return a != a ? b : b != b ? a : b < a ? b : a; }
float larger(float a, float b) { return a != a ? b : b != b ? a : a < b ? b : a; }

struct Clamp {
  static float apply(float x, float low, float high) { return smaller(larger(x, low), high); }
};
struct ClampNan {
  static float apply(float x, float low, float high) {
    return x != x ? x : smaller(larger(x, low), high);
  }
};
void plan_clamp(Planner& p, const Operation& op) {
  if (p.integer(op, "propagateNan") == 0)
    float_rule<Clamp, 3>(2)(p, op);
  else
    float_rule<ClampNan, 3>(2)(p, op);
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
    const float x = convert<float>(from[i]);
    if constexpr (std::is_same_v<To, f8e4m3fn>) {
      to[i] = convert<To>(x > 448.f ? 448.f : x < -448.f ? -448.f : x);
    } else if constexpr (std::is_same_v<To, f8e5m2>) {
      to[i] = convert<To>(x > 57344.f ? 57344.f : x < -57344.f ? -57344.f : x);
    } else {
      to[i] = convert<To>(x);
    }
  }
}
/// To bf16 toward zero: the high half, a NaN's kept one.
void run_cut(std::byte* out, const std::byte* const* in, std::int64_t n) {
  auto* const to = reinterpret_cast<std::uint16_t*>(out);
  const auto* const from = reinterpret_cast<const std::uint32_t*>(in[0]);
  for (std::int64_t i = 0; i < n; ++i) {
    const bool nan = (from[i] & 0x7fffffffu) > 0x7f800000u;
    to[i] = static_cast<std::uint16_t>((from[i] >> 16) | (nan ? 0x40u : 0u));
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
  if (rounding == 1) {
    with_float(to, [&](auto to_tag) {
      with_float(from, [&](auto from_tag) {
        e.kernel = run_convert<typename decltype(to_tag)::type, typename decltype(from_tag)::type>;
      });
    });
  } else if (from == DType::f32 && to == DType::bf16) {
    e.kernel = run_cut;
  }
  if (e.kernel == nullptr)
    p.unsupported(op, rounding == 1 ? "of these types" : "of these types, toward zero");
  p.element_op(op, e, op.operands);
}

struct IsNan {
  static bool of(float a) { return std::isnan(a); }
};
struct IsInf {
  static bool of(float a) { return std::isinf(a); }
};
struct IsFinite {
  static bool of(float a) { return std::isfinite(a); }
};
/// libdevice's tests give an i32.
template <class Test>
void plan_test(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  p.expect_type(op, DType::f32);
  ElementOp e;
  e.result = DType::i32;
  e.kernel = [](std::byte* out, const std::byte* const* in, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i)
      reinterpret_cast<std::int32_t*>(out)[i] =
          Test::of(reinterpret_cast<const float*>(in[0])[i]) ? 1 : 0;
  };
  p.element_op(op, e, op.operands);
}

// The C library's f64 functions, rounded to f32.
template <double (*kFunction)(double)>
struct Rounded {
  static float apply(float a) { return static_cast<float>(kFunction(static_cast<double>(a))); }
};
template <double (*kFunction)(double, double)>
struct Rounded2 {
  static float apply(float a, float b) {
    return static_cast<float>(kFunction(static_cast<double>(a), static_cast<double>(b)));
  }
};
struct Trunc {
  static float apply(float a) { return std::trunc(a); }
};
struct Round {
  static float apply(float a) { return std::round(a); }
};
struct Remainder {
  static float apply(float a, float b) { return std::fmod(a, b); }
};
struct CopySign {
  static float apply(float a, float b) { return std::copysign(a, b); }
};
struct MultiplyAdd {
  static float apply(float a, float b, float c) { return std::fma(a, b, c); }
};

using Plan = std::function<void(Planner&, const Operation&)>;

/// A rule of MLIR's arith, by name.
const Rule& shared(const char* name) {
  return *std::ranges::find_if(program::arith_rules(),
                               [&](const Rule& r) { return std::string_view(r.name) == name; });
}

/// Ordered and not equal, which the shared rule has as TPUs do.
struct OrderedNotEqual {
  static bool apply(float a, float b) { return a < b || b < a; }
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
  with_float(d, [&](auto tag) {
    using T = typename decltype(tag)::type;
    e.kernel = [](std::byte* out, const std::byte* const* in, std::int64_t n) {
      const auto* const a = reinterpret_cast<const T*>(in[0]);
      const auto* const b = reinterpret_cast<const T*>(in[1]);
      for (std::int64_t i = 0; i < n; ++i)
        reinterpret_cast<bool*>(out)[i] =
            OrderedNotEqual::apply(convert<float>(a[i]), convert<float>(b[i]));
    };
  });
  if (e.kernel == nullptr) p.unsupported(op, "of these types");
  p.element_op(op, e, op.operands);
}
/// The sign of an i1 is its only bit: what that means is not built.
void plan_cmpi(Planner& p, const Operation& op) {
  const std::int64_t predicate = p.integer(op, "predicate");
  if (op.operands.size() == 2 && p.type(op.operands[0]).dtype == DType::boolean && predicate >= 2 &&
      predicate <= 5)
    p.unsupported(op, "of i1 with a sign");
  shared("arith.cmpi").plan(p, op);
}
void plan_sitofp(Planner& p, const Operation& op) {
  if (op.operands.size() == 1 && p.type(op.operands[0]).dtype == DType::boolean)
    p.unsupported(op, "of i1 with a sign");
  shared("arith.sitofp").plan(p, op);
}

/// By libdevice's name, without "__nv_". Correctly rounded here, or nearly so; libdevice's own
/// error is in CUDA's documentation (at most 4 ulp, and 2 of most).
const std::map<std::string, Plan>& libdevice() {
  static const std::map<std::string, Plan> all = {
      {"fabsf", float_rule<Abs, 1>()},
      {"ceilf", float_rule<Ceil, 1>()},
      {"floorf", float_rule<Floor, 1>()},
      {"truncf", float_rule<Trunc, 1>()},
      {"rintf", float_rule<RoundEven, 1>()},
      {"nearbyintf", float_rule<RoundEven, 1>()},
      {"roundf", float_rule<Round, 1>()},
      {"sqrtf", float_rule<Sqrt, 1>()},
      {"fsqrt_rn", float_rule<Sqrt, 1>()},
      {"rsqrtf", float_rule<Rsqrt, 1>(1, true)},
      {"expf", float_rule<Exp, 1>(1, true)},
      {"exp2f", float_rule<Exp2, 1>(1, true)},
      {"expm1f", float_rule<Expm1, 1>(1, true)},
      {"logf", float_rule<Log, 1>(1, true)},
      {"log2f", float_rule<Log2, 1>(1, true)},
      {"log1pf", float_rule<Log1p, 1>(1, true)},
      {"log10f", float_rule<Rounded<std::log10>, 1>(1, true)},
      {"sinf", float_rule<Sin, 1>(1, true)},
      {"cosf", float_rule<Cos, 1>(1, true)},
      {"tanf", float_rule<Rounded<std::tan>, 1>(1, true)},
      {"asinf", float_rule<Rounded<std::asin>, 1>(1, true)},
      {"acosf", float_rule<Rounded<std::acos>, 1>(1, true)},
      {"atanf", float_rule<Rounded<std::atan>, 1>(1, true)},
      {"sinhf", float_rule<Rounded<std::sinh>, 1>(1, true)},
      {"coshf", float_rule<Rounded<std::cosh>, 1>(1, true)},
      {"tanhf", float_rule<Tanh, 1>(1, true)},
      {"asinhf", float_rule<Rounded<std::asinh>, 1>(1, true)},
      {"acoshf", float_rule<Rounded<std::acosh>, 1>(1, true)},
      {"atanhf", float_rule<Rounded<std::atanh>, 1>(1, true)},
      {"cbrtf", float_rule<Rounded<std::cbrt>, 1>(1, true)},
      {"erff", float_rule<Erf, 1>(1, true)},
      {"erfcf", float_rule<Rounded<std::erfc>, 1>(1, true)},
      {"lgammaf", float_rule<Rounded<std::lgamma>, 1>(1, true)},
      {"tgammaf", float_rule<Rounded<std::tgamma>, 1>(1, true)},
      {"powf", float_rule<Pow, 2>(1, true)},
      {"atan2f", float_rule<Rounded2<std::atan2>, 2>(1, true)},
      {"hypotf", float_rule<Rounded2<std::hypot>, 2>(1, true)},
      {"fmodf", float_rule<Remainder, 2>()},
      {"copysignf", float_rule<CopySign, 2>()},
      {"fdiv_rn", float_rule<Div, 2>()},
      {"fmul_rn", float_rule<Mul, 2>()},
      {"fadd_rn", float_rule<Add, 2>()},
      {"fsub_rn", float_rule<Sub, 2>()},
      {"fmaf", float_rule<MultiplyAdd, 3>(2)},
      {"isnanf", plan_test<IsNan>},
      {"isinff", plan_test<IsInf>},
      {"finitef", plan_test<IsFinite>},
  };
  return all;
}

}  // namespace

void plan_libdevice(Planner& p, const Operation& op) {
  std::string name = p.text(op, "symbol");
  const std::string symbol = name;
  if (name.starts_with("__nv_")) name = name.substr(5);
  const auto it = libdevice().find(name);
  if (it == libdevice().end()) p.unsupported(op, "of " + symbol);
  it->second(p, op);
}

bool differs_on_gpus(const std::string& name) {
  constexpr std::string_view kSame[] = {"copysignf",  "finitef", "isinff", "isnanf",
                                        "nearbyintf", "rintf",   "roundf", "truncf"};
  return std::ranges::find(kSame, name) == std::end(kSame);
}

Rules math_rules() {
  static const std::vector<Rule> rules = {
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
