// math.*
#include <bit>
#include <cmath>

#include "program/elements.hpp"
#include "program/rules.hpp"
#include "sim/ops/all.hpp"

namespace tessera::program {

namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

struct AbsI {
  template <class T>
  static T apply(T a) {
    return a < 0 ? static_cast<T>(Unsigned<T>(0) - static_cast<Unsigned<T>>(a)) : a;
  }
};
struct LeadingZeros {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::countl_zero(static_cast<Unsigned<T>>(a)));
  }
};
struct TrailingZeros {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::countr_zero(static_cast<Unsigned<T>>(a)));
  }
};
struct SetBits {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::popcount(static_cast<Unsigned<T>>(a)));
  }
};
// The C library's f64 functions, rounded to f32.
struct Tan {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::tan(static_cast<double>(a)));
  }
};
struct Atan2 {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(std::atan2(static_cast<double>(a), static_cast<double>(b)));
  }
};
struct Cbrt {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::cbrt(static_cast<double>(a)));
  }
};
struct CopySign {
  template <class T>
  static T apply(T a, T b) {
    return std::copysign(a, b);
  }
};
struct Round {
  template <class T>
  static T apply(T a) {
    return std::round(a);
  }
};
struct Trunc {
  template <class T>
  static T apply(T a) {
    return std::trunc(a);
  }
};
struct MultiplyAdd {
  template <class T>
  static T apply(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
/// What TPUs approximate, and no ulps are stated for.
constexpr BoundRule kUnknown{BoundRule::Kind::unknown};

}  // namespace

Rules math_rules() {
  static const std::vector<Rule> rules = {
      {"math.absf", "|a|", true, float_rule<Abs, 1>()},
      {"math.absi", "|a|, wraps", true, integer_rule<AbsI, 1>()},
      {"math.exp", "e^a", true, float_rule<Exp, 1>(1, true)},
      {"math.exp2", "2^a", true, float_rule<Exp2, 1>(1, true)},
      {"math.expm1", "e^a - 1", true, float_rule<Expm1, 1>(1, true)},
      {"math.log", "ln a", true, float_rule<Log, 1>(1, true)},
      {"math.log2", "log2 a", true, float_rule<Log2, 1>(1, true)},
      {"math.log1p", "ln(1 + a)", true, float_rule<Log1p, 1>(1, true)},
      {"math.tanh", "tanh a", true, float_rule<Tanh, 1>(1, true)},
      {"math.sin", "sin a", true, float_rule<Sin, 1>(1, true)},
      {"math.cos", "cos a", true, float_rule<Cos, 1>(1, true)},
      {"math.tan", "tan a", true, float_rule<Tan, 1>(1, true, kUnknown)},
      {"math.atan2", "the angle of (b, a)", true, float_rule<Atan2, 2>(1, true, kUnknown)},
      {"math.erf", "erf a", true, float_rule<Erf, 1>(1, true)},
      {"math.powf", "a^b", true, float_rule<Pow, 2>(1, true)},
      {"math.sqrt", "the square root", true, float_rule<Sqrt, 1>(1, true)},
      {"math.rsqrt", "1 / the square root", true, float_rule<Rsqrt, 1>(1, true)},
      {"math.cbrt", "the cube root", true, float_rule<Cbrt, 1>(1, true, kUnknown)},
      {"math.copysign", "|a| with b's sign", true, float_rule<CopySign, 2>()},
      {"math.fma", "a * b + c, rounded once", true,
       float_rule<MultiplyAdd, 3>(2, false, {BoundRule::Kind::rule, "fma"})},
      {"math.floor", "rounded downward", true, float_rule<Floor, 1>()},
      {"math.ceil", "rounded upward", true, float_rule<Ceil, 1>()},
      {"math.trunc", "rounded toward zero", true, float_rule<Trunc, 1>()},
      {"math.round", "rounded to nearest, halves away from zero", true, float_rule<Round, 1>()},
      {"math.roundeven", "rounded to nearest, halves to even", true, float_rule<RoundEven, 1>()},
      {"math.ctlz", "leading zeros", true, integer_rule<LeadingZeros, 1>()},
      {"math.cttz", "trailing zeros", true, integer_rule<TrailingZeros, 1>()},
      {"math.ctpop", "bits that are set", true, integer_rule<SetBits, 1>()},
  };
  return rules;
}

}  // namespace tessera::program
