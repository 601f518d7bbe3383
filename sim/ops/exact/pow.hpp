// x^y of f32, with IEEE 754's special cases (9.2.1): correctly rounded.
//
// |x| = 2^e (1 + f), log(1 + f) = 2s + s^3 P(s^2) with s = f / (2 + f) in two parts, which makes
// y log2 |x| good to 2^-50; what then lies within 2^-48 of the midpoint of two floats is computed
// again in sums of two f64, to 2^-96, and is such a midpoint if it lies within 2^-80 of it: of all
// 2^64 pairs of operands none other is expected that close.
#pragma once

#include "sim/ops/exact/double_double.hpp"
#include "sim/ops/exact/exp.hpp"
#include "sim/ops/exact/log.hpp"

namespace tessera::exact {

namespace detail {

/// x^y for x > 0, where f64 does not decide.
TESSERA_FN float pow_near_midpoint(double x, double y) {
  constexpr DoubleDouble kLn2Parts{kLn2, kLn2Rest};
  const auto [e, f] = log_parts(x);
  const DoubleDouble log =
      DoubleDouble{e, 0} * kLn2Parts + twice_atanh(DoubleDouble{f, 0} / DoubleDouble{2 + f, 0});
  const DoubleDouble exponent = DoubleDouble{y, 0} * log;
  const double shifted = std::fma(exponent.hi, kLog2e, kToInteger);
  const double k = shifted - kToInteger;
  const DoubleDouble power = series_of_exp(exponent + DoubleDouble{-k, 0} * kLn2Parts);
  const double scale = power_of_2(shifted);
  const double hi = scale * power.hi;
  const double lo = scale * power.lo;
  // The nearest multiple of half the last bit of a float, a subnormal one's being 2^-149.
  const double at_least = hi < 0x1p-126 ? 0x1p-126 : hi;
  const double to_half_bits =
      std::bit_cast<double>(std::bit_cast<std::uint64_t>(at_least) & 0x7ff0000000000000) * 0x1.8p28;
  const double midpoint = (hi + to_half_bits) - to_half_bits;
  if (std::fabs((hi - midpoint) + lo) < hi * 0x1p-80) return static_cast<float>(midpoint);
  if (hi != midpoint) return static_cast<float>(hi);
  const auto bits = std::bit_cast<std::uint64_t>(hi);
  return static_cast<float>(std::bit_cast<double>(lo > 0 ? bits + 1 : bits - 1));
}

/// x^y for x > 0, x != 1, both finite, y != 0.
TESSERA_FN float pow_of_positive(double x, double y) {
  constexpr double kLog2eRest = 0x1.777d0ffda0d24p-56;
  const auto [e, f] = log_parts(x);
  const double inverse = 1 / (2 + f);
  const double s = f * inverse;
  const double s_rest = std::fma(-s, 2 + f, f) * inverse;
  const double t = s * s;
  const double log = 2 * s;
  const double log_rest = std::fma(s * t, atanh_terms(t), 2 * s_rest);
  const double log2 = log * kLog2e;
  const double log2_rest =
      std::fma(log, kLog2e, -log2) + std::fma(log, kLog2eRest, log_rest * kLog2e);
  const DoubleDouble most = normalised(e, log2);
  const DoubleDouble whole = normalised(most.hi, most.lo + log2_rest);
  const double exponent = y * whole.hi;
  if (exponent > 129) return std::numeric_limits<float>::infinity();
  if (exponent < -151) return 0;
  const double rest = std::fma(y, whole.hi, -exponent) + y * whole.lo;
  const double shifted = exponent + kToInteger;
  const double r = (exponent - (shifted - kToInteger)) + rest;
  const double power = exp_of(shifted, r * kLn2).exp();
  constexpr double kNear = 0x1p-48;
  const auto below = static_cast<float>(power - power * kNear);
  const auto above = static_cast<float>(power + power * kNear);
  return below == above ? below : pow_near_midpoint(x, y);
}

}  // namespace detail

/// x to the y.
TESSERA_FN float pow(float x, float y) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return x + y;
  const float size = std::fabs(x);
  const float half = y * 0.5f;
  const bool odd = std::trunc(y) == y && (std::trunc(half) != half);
  const float sign = std::copysign(1.0f, odd ? x : 1.0f);
  if (size == 0 || size == kInf) return sign * ((size == 0) == (y < 0) ? kInf : 0.0f);
  if (std::fabs(y) == kInf) return size == 1 ? 1.0f : (size > 1) == (y > 0) ? kInf : 0.0f;
  if (x < 0 && std::trunc(y) != y) return std::numeric_limits<float>::quiet_NaN();
  return sign * (size == 1 ? 1.0f : detail::pow_of_positive(size, y));
}

}  // namespace tessera::exact
