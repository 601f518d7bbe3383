// What the exact elementary functions are written in: f64 whose every operation is one of IEEE 754,
// so that every compiler, SIMD width and GPU gets the same bits.
//
// The functions of this folder take an f32 and return the f32 nearest to the exact value, ties to
// even. They compute in f64 to about 2^-52 of the value and round. That is wrong only for inputs
// whose value lies that close to the midpoint of two floats: tests/numerics/every_input.cpp
// compares all 2^32 of them with MPFR, and those few that f64 rounds to the wrong side stand in the
// functions as what they are, exceptions. There is no branch in them where a select does: loops
// over them vectorise. Coefficients: scripts/minimax.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "memory_model/tessera_fn.hpp"

namespace tessera::exact {

/// The highest power's coefficient first.
template <class... C>
TESSERA_FN double polynomial(double x, double highest, C... lower) {
  double y = highest;
  ((y = std::fma(y, x, lower)), ...);
  return y;
}

inline constexpr double kLog2e = 0x1.71547652b82fep0;
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kLn2Rest = 0x1.abc9e3b39803fp-56;  ///< ln 2 less kLn2
// ln 2 again, in 36 bits and the rest: a product of the first and an exponent is exact.
inline constexpr double kLn2Short = 0x1.62e42fefap-1;
inline constexpr double kLn2ShortRest = 0x1.cf79abc9e3b3ap-40;

/// NaN stays NaN.
TESSERA_FN double clamped(double x, double least, double most) {
  x = x < least ? least : x;
  return x > most ? most : x;
}

/// What is added to an f64 under 2^51 to round it to an integer, which its low bits then hold.
inline constexpr double kToInteger = 0x1.8p52;

/// 2^k of k + kToInteger, for k in [-1022, 1023].
TESSERA_FN double power_of_2(double shifted) {
  constexpr std::uint64_t kOne = std::uint64_t{1023} << 52;
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) << 52) + kOne);
}

/// `value`, or `result` where x is `input`: for the few inputs that f64 rounds to the wrong side.
TESSERA_FN float except(float value, float x, float input, float result) {
  return x == input ? result : value;
}

/// The f32 nearest to a + b, for |a| >= |b|: where the sum in f64 is the midpoint of two floats,
/// what was lost of b says which.
TESSERA_FN float rounded_sum(double a, double b) {
  const double sum = a + b;
  const double lost = b - (sum - a);
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  constexpr std::uint64_t kLeftOff = (std::uint64_t{1} << 29) - 1;  // f64's bits beyond f32's
  constexpr std::uint64_t kMidpoint = std::uint64_t{1} << 28;
  const std::uint64_t step = sum > 0 ? 1 : ~std::uint64_t{0};
  std::uint64_t to = lost > 0 ? bits + step : bits;
  to = lost < 0 ? bits - step : to;
  return static_cast<float>(std::bit_cast<double>((bits & kLeftOff) == kMidpoint ? to : bits));
}

}  // namespace tessera::exact
