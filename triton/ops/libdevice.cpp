// tt.extern_elementwise: libdevice's functions by name.
//
// Those of reals are correctly rounded here, or nearly so, in f64 by the C library's; the fast ones
// too. Left out: rounding of arithmetic upward, downward and toward zero, functions of vectors.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <string_view>

#include "program/elements.hpp"
#include "program/rules.hpp"
#include "sim/ops/all.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

using Plan = std::function<void(Planner&, const Operation&)>;

Plan of_table(Rules rules, std::string_view name) {
  return std::ranges::find_if(rules, [&](const Rule& r) { return name == r.name; })->plan;
}
Plan arith(std::string_view name) { return of_table(program::arith_rules(), name); }
Plan math(std::string_view name) { return of_table(program::math_rules(), name); }

struct IsNan {
  static bool of(double a) { return std::isnan(a); }
};
struct IsInf {
  static bool of(double a) { return std::isinf(a); }
};
struct IsFinite {
  static bool of(double a) { return std::isfinite(a); }
};
struct IsNegative {
  static bool of(double a) { return std::signbit(a); }
};
/// libdevice's tests give an i32.
template <class Test>
void plan_test(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  ElementOp e;
  e.result = DType::i32;
  with_real(p.type(op.operands[0]).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    e.kernel = [](std::byte* out, const std::byte* const* in, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i)
        reinterpret_cast<std::int32_t*>(out)[i] =
            Test::of(convert<double>(reinterpret_cast<const T*>(in[0])[i])) ? 1 : 0;
    };
  });
  if (e.kernel == nullptr) p.unsupported(op, "of no float");
  p.element_op(op, e, op.operands);
}

// The C library's f64 functions, rounded to f32.
template <double (*kFunction)(double)>
struct Rounded {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(kFunction(static_cast<double>(a)));
  }
};
template <double (*kFunction)(double, double)>
struct Rounded2 {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(kFunction(static_cast<double>(a), static_cast<double>(b)));
  }
};

double reciprocal_cbrt(double x) { return 1 / std::cbrt(x); }
double exp10(double x) { return std::pow(10., x); }
double reciprocal_hypot(double x, double y) { return 1 / std::hypot(x, y); }
template <int kOrder>
double bessel_i(double x) {
  const double y = std::cyl_bessel_i(kOrder, std::fabs(x));
  return kOrder % 2 != 0 && x < 0 ? -y : y;
}
/// Of x pi, whose integral part is taken off first.
double sin_pi(double x) {
  const double r = std::remainder(x, 2.);
  if (std::fabs(r) == 1) return std::copysign(0., x);
  return std::sin(r * std::numbers::pi);
}
double cos_pi(double x) {
  const double r = std::fabs(std::remainder(x, 2.));
  return r == 0.5 ? 0 : std::cos(r * std::numbers::pi);
}
double scaled_erfc(double x) {
  constexpr double kFar = 25;
  if (x < kFar) return std::exp(x * x) * std::erfc(x);
  const double y = 1 / (x * x);
  return (1 - y / 2 * (1 - 1.5 * y * (1 - 2.5 * y))) / (x * std::sqrt(std::numbers::pi));
}
/// The x whose erfc is y, by Newton's steps from where erfc's tail would have it.
double inverse_erfc(double y) {
  if (!(y > 0 && y < 2)) return y == 0 ? HUGE_VAL : y == 2 ? -HUGE_VAL : std::nan("");
  if (y > 1) return -inverse_erfc(2 - y);
  double x = y > 0.5 ? (1 - y) * 0.886 : std::sqrt(-std::log(y));
  for (int i = 0; i < 60; ++i) {
    const double slope = -2 / std::sqrt(std::numbers::pi) * std::exp(-x * x);
    const double step = (std::erfc(x) - y) / slope;
    x -= std::clamp(step, -0.5, 0.5);
    if (std::fabs(step) <= 1e-16 * std::fabs(x)) break;
  }
  return x;
}
double inverse_erf(double y) {
  if (std::fabs(y) > 0.5) return std::copysign(inverse_erfc(1 - std::fabs(y)), y);
  double x = y * 0.886;
  for (int i = 0; i < 8; ++i)
    x -= (std::erf(x) - y) / (2 / std::sqrt(std::numbers::pi) * std::exp(-x * x));
  return x;
}
double normal(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double inverse_normal(double p) { return -std::numbers::sqrt2 * inverse_erfc(2 * p); }

struct Fdim {
  template <class T>
  static T apply(T a, T b) {
    return std::fdim(a, b);
  }
};
struct NextAfter {
  template <class T>
  static T apply(T a, T b) {
    return std::nextafter(a, b);
  }
};
struct Saturate {
  template <class T>
  static T apply(T a) {
    return a > T(0) ? std::min(a, T(1)) : T(0);
  }
};
struct Reciprocal {
  template <class T>
  static T apply(T a) {
    return T(1) / a;
  }
};

/// A function whose error bounds nobody has written down here.
template <class Op, int kArity>
Plan approximate(int flops = 1, bool transcendental = false) {
  return float_rule<Op, kArity>(flops, transcendental, {BoundRule::Kind::unknown});
}

/// By libdevice's name, without "__nv_". Correctly rounded here, or nearly so; libdevice's own
/// error is in CUDA's documentation (at most 4 ulp, and 2 of most).
const std::map<std::string, Plan>& of_reals() {
  static const std::map<std::string, Plan> all = {
      {"fabsf", float_rule<Abs, 1>()},
      {"ceilf", float_rule<Ceil, 1>()},
      {"floorf", float_rule<Floor, 1>()},
      {"truncf", math("math.trunc")},
      {"rintf", float_rule<RoundEven, 1>()},
      {"nearbyintf", float_rule<RoundEven, 1>()},
      {"roundf", math("math.round")},
      {"sqrtf", float_rule<Sqrt, 1>()},
      {"fsqrt_rn", float_rule<Sqrt, 1>()},
      {"rsqrtf", float_rule<Rsqrt, 1>(1, true)},
      {"expf", float_rule<Exp, 1>(1, true)},
      {"exp2f", float_rule<Exp2, 1>(1, true)},
      {"expm1f", float_rule<Expm1, 1>(1, true)},
      {"logf", float_rule<Log, 1>(1, true)},
      {"log2f", float_rule<Log2, 1>(1, true)},
      {"log1pf", float_rule<Log1p, 1>(1, true)},
      {"log10f", approximate<Rounded<std::log10>, 1>(1, true)},
      {"sinf", float_rule<Sin, 1>(1, true)},
      {"cosf", float_rule<Cos, 1>(1, true)},
      {"tanf", approximate<Rounded<std::tan>, 1>(1, true)},
      {"asinf", approximate<Rounded<std::asin>, 1>(1, true)},
      {"acosf", approximate<Rounded<std::acos>, 1>(1, true)},
      {"atanf", approximate<Rounded<std::atan>, 1>(1, true)},
      {"sinhf", approximate<Rounded<std::sinh>, 1>(1, true)},
      {"coshf", approximate<Rounded<std::cosh>, 1>(1, true)},
      {"tanhf", float_rule<Tanh, 1>(1, true)},
      {"asinhf", approximate<Rounded<std::asinh>, 1>(1, true)},
      {"acoshf", approximate<Rounded<std::acosh>, 1>(1, true)},
      {"atanhf", approximate<Rounded<std::atanh>, 1>(1, true)},
      {"cbrtf", approximate<Rounded<std::cbrt>, 1>(1, true)},
      {"erff", float_rule<Erf, 1>(1, true)},
      {"erfcf", approximate<Rounded<std::erfc>, 1>(1, true)},
      {"lgammaf", approximate<Rounded<std::lgamma>, 1>(1, true)},
      {"tgammaf", approximate<Rounded<std::tgamma>, 1>(1, true)},
      {"powf", float_rule<Pow, 2>(1, true)},
      {"atan2f", approximate<Rounded2<std::atan2>, 2>(1, true)},
      {"hypotf", approximate<Rounded2<std::hypot>, 2>(1, true)},
      {"fmodf", arith("arith.remf")},
      {"copysignf", math("math.copysign")},
      {"fdiv_rn", float_rule<Div, 2>()},
      {"fmul_rn", float_rule<Mul, 2>()},
      {"fadd_rn", float_rule<Add, 2>()},
      {"fsub_rn", float_rule<Sub, 2>()},
      {"fmaf", math("math.fma")},
      {"rcbrtf", approximate<Rounded<reciprocal_cbrt>, 1>(1, true)},
      {"exp10f", approximate<Rounded<exp10>, 1>(1, true)},
      {"sinpif", approximate<Rounded<sin_pi>, 1>(1, true)},
      {"cospif", approximate<Rounded<cos_pi>, 1>(1, true)},
      {"erfcxf", approximate<Rounded<scaled_erfc>, 1>(1, true)},
      {"erfinvf", approximate<Rounded<inverse_erf>, 1>(1, true)},
      {"erfcinvf", approximate<Rounded<inverse_erfc>, 1>(1, true)},
      {"normcdff", approximate<Rounded<normal>, 1>(1, true)},
      {"normcdfinvf", approximate<Rounded<inverse_normal>, 1>(1, true)},
      {"j0f", approximate<Rounded<::j0>, 1>(1, true)},
      {"j1f", approximate<Rounded<::j1>, 1>(1, true)},
      {"y0f", approximate<Rounded<::y0>, 1>(1, true)},
      {"y1f", approximate<Rounded<::y1>, 1>(1, true)},
      {"cyl_bessel_i0f", approximate<Rounded<bessel_i<0>>, 1>(1, true)},
      {"cyl_bessel_i1f", approximate<Rounded<bessel_i<1>>, 1>(1, true)},
      {"logbf", approximate<Rounded<std::logb>, 1>()},
      {"rhypotf", approximate<Rounded2<reciprocal_hypot>, 2>(1, true)},
      {"remainderf", approximate<Rounded2<std::remainder>, 2>()},
      {"fdimf", approximate<Fdim, 2>()},
      {"nextafterf", approximate<NextAfter, 2>()},
      {"saturatef", approximate<Saturate, 1>()},
      {"frcp_rn", approximate<Reciprocal, 1>()},
      {"frsqrt_rn", float_rule<Rsqrt, 1>(1, true)},
      {"fmaf_rn", math("math.fma")},
      {"ffma_rn", math("math.fma")},
      {"fast_sinf", float_rule<Sin, 1>(1, true)},
      {"fast_cosf", float_rule<Cos, 1>(1, true)},
      {"fast_tanf", approximate<Rounded<std::tan>, 1>(1, true)},
      {"fast_expf", float_rule<Exp, 1>(1, true)},
      {"fast_exp10f", approximate<Rounded<exp10>, 1>(1, true)},
      {"fast_logf", float_rule<Log, 1>(1, true)},
      {"fast_log2f", float_rule<Log2, 1>(1, true)},
      {"fast_log10f", approximate<Rounded<std::log10>, 1>(1, true)},
      {"fast_powf", float_rule<Pow, 2>(1, true)},
      {"fast_fdividef", float_rule<Div, 2>()},
      {"isnanf", plan_test<IsNan>},
      {"isinff", plan_test<IsInf>},
      {"finitef", plan_test<IsFinite>},
      {"signbitf", plan_test<IsNegative>},
  };
  return all;
}

using I32 = std::int32_t;
using I64 = std::int64_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

/// A function of certain types, element by element.
template <auto kFunction>
struct Typed;
template <class R, class... A, R (*kFunction)(A...)>
struct Typed<kFunction> {
  static constexpr std::array<DType, sizeof...(A)> types{kDTypeOf<A>...};
  static void run(std::byte* out, const std::byte* const* in, std::int64_t n) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      for (std::int64_t i = 0; i < n; ++i)
        reinterpret_cast<R*>(out)[i] = kFunction(reinterpret_cast<const A*>(in[I])[i]...);
    }
    (std::index_sequence_for<A...>{});
  }
  static void plan(Planner& p, const Operation& op) {
    p.expect(op, sizeof...(A), 1);
    for (std::size_t i = 0; i < sizeof...(A); ++i) {
      if (p.type(op.operands[i]).dtype != types[i]) p.unsupported(op, "of these types");
    }
    ElementOp e;
    e.result = kDTypeOf<R>;
    e.kernel = run;
    p.element_op(op, e, op.operands);
  }
};

template <class T>
T reversed(T a) {
  using U = std::make_unsigned_t<T>;
  U r = 0;
  for (std::size_t i = 0; i < 8 * sizeof(T); ++i)
    r = static_cast<U>(r << 1 | (static_cast<U>(a) >> i & 1));
  return static_cast<T>(r);
}
template <class T>
I32 leading_zeros(T a) {
  return std::countl_zero(static_cast<std::make_unsigned_t<T>>(a));
}
template <class T>
I32 set_bits(T a) {
  return std::popcount(static_cast<std::make_unsigned_t<T>>(a));
}
template <class T>
I32 first_set(T a) {
  return a == 0 ? 0 : std::countr_zero(static_cast<std::make_unsigned_t<T>>(a)) + 1;
}
I32 byte_perm(I32 a, I32 b, I32 selector) {
  const U64 bytes = U64{static_cast<U32>(b)} << 32 | static_cast<U32>(a);
  U32 r = 0;
  for (int i = 0; i < 4; ++i)
    r |= static_cast<U32>(bytes >> (8 * (selector >> (4 * i) & 7)) & 255) << (8 * i);
  return static_cast<I32>(r);
}
/// The high half of a product.
template <class T, class Wide, class From>
T high(T a, T b) {
  return static_cast<T>((static_cast<Wide>(static_cast<From>(a)) * static_cast<From>(b)) >>
                        (8 * sizeof(T)));
}
/// Of the low 24 bits.
I32 mul24(I32 a, I32 b) {
  const auto low = [](I32 x) { return static_cast<I32>(static_cast<U32>(x) << 8) >> 8; };
  return static_cast<I32>(I64{low(a)} * low(b));
}
I32 umul24(I32 a, I32 b) {
  return static_cast<I32>((static_cast<U64>(a) & 0xffffff) * (static_cast<U64>(b) & 0xffffff));
}
template <class T>
I32 distance(I32 a, I32 b, I32 c) {
  const auto x = static_cast<I64>(static_cast<T>(a));
  const auto y = static_cast<I64>(static_cast<T>(b));
  return static_cast<I32>((x > y ? x - y : y - x) + c);
}
/// Half of a sum, and of one more.
template <class T, int kMore>
I32 halved(I32 a, I32 b) {
  return static_cast<I32>(
      (static_cast<I64>(static_cast<T>(a)) + static_cast<I64>(static_cast<T>(b)) + kMore) >> 1);
}
template <class T>
T magnitude(T a) {
  return a < 0
             ? static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a))
             : a;
}
/// To an integer, saturating; NaN is 0.
template <class To, class As, class From, double (*kRound)(double)>
To whole(From x) {
  return static_cast<To>(convert<As>(kRound(static_cast<double>(x))));
}
template <class To, class From, class As>
To real(From x) {
  return static_cast<To>(static_cast<As>(x));
}
template <class To, class From>
To same_bits(From x) {
  return std::bit_cast<To>(x);
}
I32 high_word(double x) { return static_cast<I32>(std::bit_cast<U64>(x) >> 32); }
I32 low_word(double x) { return static_cast<I32>(std::bit_cast<U64>(x)); }
double of_words(I32 upper, I32 lower) {
  return std::bit_cast<double>(U64{static_cast<U32>(upper)} << 32 | static_cast<U32>(lower));
}
template <class T>
T scaled(T x, I32 by) {
  return std::ldexp(x, by);
}
template <class T>
T power(T x, I32 n) {
  return static_cast<T>(std::pow(static_cast<double>(x), n));
}
template <class T>
I32 exponent(T x) {
  return std::ilogb(x);
}
template <class T>
T bessel_j(I32 n, T x) {
  return static_cast<T>(::jn(n, static_cast<double>(x)));
}
template <class T>
T bessel_y(I32 n, T x) {
  return static_cast<T>(::yn(n, static_cast<double>(x)));
}
template <class T>
T norm3(T a, T b, T c) {
  return static_cast<T>(
      std::hypot(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c)));
}
template <class T>
T norm4(T a, T b, T c, T d) {
  return static_cast<T>(std::hypot(std::hypot(static_cast<double>(a), static_cast<double>(b)),
                                   std::hypot(static_cast<double>(c), static_cast<double>(d))));
}
template <class T>
T rnorm3(T a, T b, T c) {
  return static_cast<T>(
      1 / std::hypot(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c)));
}

template <class To, class As, class From>
void add_roundings(std::map<std::string, Plan>& to, const std::string& name) {
  to[name + "_rn"] = Typed<whole<To, As, From, std::nearbyint>>::plan;
  to[name + "_rz"] = Typed<whole<To, As, From, std::trunc>>::plan;
  to[name + "_rd"] = Typed<whole<To, As, From, std::floor>>::plan;
  to[name + "_ru"] = Typed<whole<To, As, From, std::ceil>>::plan;
}

/// By libdevice's name, without "__nv_": those that are of certain types.
const std::map<std::string, Plan>& of_types() {
  static const std::map<std::string, Plan> all = [] {
    std::map<std::string, Plan> to = {
        {"abs", Typed<magnitude<I32>>::plan},
        {"llabs", Typed<magnitude<I64>>::plan},
        {"brev", Typed<reversed<I32>>::plan},
        {"brevll", Typed<reversed<I64>>::plan},
        {"byte_perm", Typed<byte_perm>::plan},
        {"clz", Typed<leading_zeros<I32>>::plan},
        {"clzll", Typed<leading_zeros<I64>>::plan},
        {"popc", Typed<set_bits<I32>>::plan},
        {"popcll", Typed<set_bits<I64>>::plan},
        {"ffs", Typed<first_set<I32>>::plan},
        {"ffsll", Typed<first_set<I64>>::plan},
        {"mulhi", Typed<high<I32, I64, I32>>::plan},
        {"umulhi", Typed<high<I32, U64, U32>>::plan},
        {"mul64hi", Typed<high<I64, __int128, I64>>::plan},
        {"umul64hi", Typed<high<I64, unsigned __int128, U64>>::plan},
        {"mul24", Typed<mul24>::plan},
        {"umul24", Typed<umul24>::plan},
        {"sad", Typed<distance<I32>>::plan},
        {"usad", Typed<distance<U32>>::plan},
        {"hadd", Typed<halved<I32, 0>>::plan},
        {"rhadd", Typed<halved<I32, 1>>::plan},
        {"uhadd", Typed<halved<U32, 0>>::plan},
        {"urhadd", Typed<halved<U32, 1>>::plan},
        {"llrint", Typed<whole<I64, I64, double, std::nearbyint>>::plan},
        {"llrintf", Typed<whole<I64, I64, float, std::nearbyint>>::plan},
        {"llround", Typed<whole<I64, I64, double, std::round>>::plan},
        {"llroundf", Typed<whole<I64, I64, float, std::round>>::plan},
        {"double2float_rn", Typed<real<float, double, double>>::plan},
        {"int2float_rn", Typed<real<float, I32, I32>>::plan},
        {"uint2float_rn", Typed<real<float, I32, U32>>::plan},
        {"ll2float_rn", Typed<real<float, I64, I64>>::plan},
        {"ull2float_rn", Typed<real<float, I64, U64>>::plan},
        {"int2double_rn", Typed<real<double, I32, I32>>::plan},
        {"uint2double_rn", Typed<real<double, I32, U32>>::plan},
        {"ll2double_rn", Typed<real<double, I64, I64>>::plan},
        {"ull2double_rn", Typed<real<double, I64, U64>>::plan},
        {"float_as_int", Typed<same_bits<I32, float>>::plan},
        {"float_as_uint", Typed<same_bits<I32, float>>::plan},
        {"int_as_float", Typed<same_bits<float, I32>>::plan},
        {"uint_as_float", Typed<same_bits<float, I32>>::plan},
        {"double_as_longlong", Typed<same_bits<I64, double>>::plan},
        {"longlong_as_double", Typed<same_bits<double, I64>>::plan},
        {"double2hiint", Typed<high_word>::plan},
        {"double2loint", Typed<low_word>::plan},
        {"hiloint2double", Typed<of_words>::plan},
        {"ldexpf", Typed<scaled<float>>::plan},
        {"ldexp", Typed<scaled<double>>::plan},
        {"scalbnf", Typed<scaled<float>>::plan},
        {"scalbn", Typed<scaled<double>>::plan},
        {"powif", Typed<power<float>>::plan},
        {"powi", Typed<power<double>>::plan},
        {"ilogbf", Typed<exponent<float>>::plan},
        {"ilogb", Typed<exponent<double>>::plan},
        {"jnf", Typed<bessel_j<float>>::plan},
        {"jn", Typed<bessel_j<double>>::plan},
        {"ynf", Typed<bessel_y<float>>::plan},
        {"yn", Typed<bessel_y<double>>::plan},
        {"norm3df", Typed<norm3<float>>::plan},
        {"norm3d", Typed<norm3<double>>::plan},
        {"norm4df", Typed<norm4<float>>::plan},
        {"norm4d", Typed<norm4<double>>::plan},
        {"rnorm3df", Typed<rnorm3<float>>::plan},
        {"rnorm3d", Typed<rnorm3<double>>::plan},
    };
    add_roundings<I32, I32, float>(to, "float2int");
    add_roundings<I32, U32, float>(to, "float2uint");
    add_roundings<I64, I64, float>(to, "float2ll");
    add_roundings<I64, U64, float>(to, "float2ull");
    add_roundings<I32, I32, double>(to, "double2int");
    add_roundings<I32, U32, double>(to, "double2uint");
    add_roundings<I64, I64, double>(to, "double2ll");
    add_roundings<I64, U64, double>(to, "double2ull");
    return to;
  }();
  return all;
}

/// The name of a function of f64 as it is of f32.
std::string of_f32(const std::string& name) {
  if (name.ends_with("_rn")) return "f" + name.substr(name.starts_with("d") ? 1 : 0);
  if (name == "isnand" || name == "isinfd" || name == "signbitd")
    return name.substr(0, name.size() - 1) + "f";
  return name == "isfinited" ? "finitef" : name + "f";
}

}  // namespace

void plan_libdevice(Planner& p, const Operation& op) {
  std::string name = p.text(op, "symbol");
  const std::string symbol = name;
  if (name.starts_with("__nv_")) name = name.substr(5);
  const auto typed = of_types().find(name);
  if (typed != of_types().end()) return typed->second(p, op);
  if (!op.operands.empty() && p.type(op.operands[0]).dtype == DType::f64) name = of_f32(name);
  const auto it = of_reals().find(name);
  if (it == of_reals().end()) p.unsupported(op, "of " + symbol);
  it->second(p, op);
}

bool differs_on_gpus(const std::string& name) {
  constexpr std::string_view kSame[] = {"copysignf", "finitef",  "isinff", "isnanf", "nearbyintf",
                                        "rintf",     "signbitf", "roundf", "truncf"};
  constexpr std::string_view kReals[] = {"jn", "norm", "pow", "ldexp", "rnorm", "scalbn", "yn"};
  if (of_types().contains(name)) {
    return std::ranges::any_of(kReals, [&](std::string_view n) { return name.starts_with(n); });
  }
  return std::ranges::find(kSame, name) == std::end(kSame);
}

}  // namespace tessera::triton
