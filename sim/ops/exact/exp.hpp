// Exponentials of f32, correctly rounded: exp, exp2, expm1, and with them tanh and logistic.
//
// x = k ln 2 + r with |r| <= ln(2) / 2; e^r - 1 = r + r^2 Q(r), Q through the Chebyshev points,
// within 2^-59 of its function; e^x - 1 = 2^k (e^r - 1) + (2^k - 1), which loses nothing near 0.
#pragma once

#include "sim/ops/exact/f64.hpp"

namespace tessera::exact {

namespace detail {

/// e^x = scale * (1 + rest).
struct ExpParts {
  double scale;  ///< a power of 2
  double rest;   ///< in (-0.3, 0.42)

  TESSERA_FN double exp() const { return std::fma(scale, rest, scale); }
  TESSERA_FN double expm1() const { return std::fma(scale, rest, scale - 1); }
};

/// `shifted` is k + kToInteger.
TESSERA_FN ExpParts exp_of(double shifted, double r) {
  const double q = polynomial(r, 0x1.1f72fc83bcbc7p-29, 0x1.af4ddda1c08cdp-26,
                              0x1.27e4db67ac2b0p-22, 0x1.71de0237484cdp-19, 0x1.a01a01a6d7831p-16,
                              0x1.a01a01abe6323p-13, 0x1.6c16c16c162d6p-10, 0x1.11111111100dfp-7,
                              0x1.5555555555556p-5, 0x1.5555555555557p-3, 0x1.0000000000000p-1);
  return {power_of_2(shifted), std::fma(r * r, q, r)};
}

/// Of least <= x <= most, beyond which the results are constant.
TESSERA_FN ExpParts exp_within(double x, double least, double most) {
  x = clamped(x, least, most);
  const double shifted = std::fma(x, kLog2e, kToInteger);
  const double k = shifted - kToInteger;
  return exp_of(shifted, std::fma(k, -kLn2ShortRest, std::fma(k, -kLn2Short, x)));
}

}  // namespace detail

/// e^x.
TESSERA_FN float exp(float x) { return static_cast<float>(detail::exp_within(x, -104, 89).exp()); }

/// 2^x.
TESSERA_FN float exp2(float x) {
  const double v = clamped(x, -151, 129);
  const double shifted = v + kToInteger;
  const double r = v - (shifted - kToInteger);
  const auto [scale, rest] = detail::exp_of(shifted, r * kLn2);
  return rounded_sum(scale, scale * rest);
}

/// e^x - 1.
TESSERA_FN float expm1(float x) {
  const double y = detail::exp_within(x, -18, 89).expm1();
  return x == 0 ? x : static_cast<float>(y);
}

/// (e^2x - 1) / (e^2x + 1).
TESSERA_FN float tanh(float x) {
  const double e = detail::exp_within(2 * std::fabs(static_cast<double>(x)), 0, 20).expm1();
  return static_cast<float>(std::copysign(e / (e + 2), static_cast<double>(x)));
}

/// 1 / (1 + e^-x) = e^x / (e^x + 1); near 0, 1/2 + (e^x - 1) / (2 (e^x + 1)), which may lie so
/// close to the midpoint of two floats that f64 cannot hold it.
TESSERA_FN float logistic(float x) {
  const auto parts = detail::exp_within(x, -104, 20);
  const double less_1 = parts.expm1();
  const double whole = parts.exp();
  const bool near = std::fabs(static_cast<double>(x)) < 1;
  const double part = (near ? 0.5 * less_1 : whole) / (2 + less_1);
  const double base = near ? 0.5 : 0.0;
  return rounded_sum(base, part);
}

}  // namespace tessera::exact
