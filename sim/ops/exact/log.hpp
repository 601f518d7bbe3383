// Logarithms of f32, correctly rounded: log, log2 and log1p.
//
// x = 2^e m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f): log(1 + f) = 2 atanh(s) =
// f - s (f - s^2 P(s^2)), P through the Chebyshev points, within 2^-58 of its function. f is exact.
#pragma once

#include "sim/ops/exact/f64.hpp"

namespace tessera::exact {

namespace detail {

/// v = 2^e (1 + f), for a normal v > 0.
struct LogParts {
  double e;
  double f;
};
TESSERA_FN LogParts log_parts(double v) {
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  constexpr std::uint64_t kBias = std::uint64_t{1023} << 52;
  constexpr std::uint64_t k2To52 = 0x4330000000000000;
  const auto bits = std::bit_cast<std::uint64_t>(v);
  const std::uint64_t biased = (bits - kSqrtHalf + kBias) >> 52;
  const double e = std::bit_cast<double>(biased | k2To52) - (0x1p52 + 1023);
  return {e, std::bit_cast<double>(bits - (biased << 52) + kBias) - 1};
}

/// (2 atanh(s) - 2s) / s^3 of t = s^2, for s <= 0.172.
TESSERA_FN double atanh_terms(double t) {
  return polynomial(t, 0x1.0c039fe4bea01p-3, 0x1.0fbe957ed02d3p-3, 0x1.3b1c355ddb480p-3,
                    0x1.745cf9047e55ep-3, 0x1.c71c7201593cap-3, 0x1.2492492476ccap-2,
                    0x1.9999999999a38p-2, 0x1.5555555555555p-1);
}

/// log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2)).
TESSERA_FN double log_1_plus_less(double f) {
  const double s = f / (2 + f);
  const double t = s * s;
  return -s * std::fma(-t, atanh_terms(t), f);
}

/// e ln 2 + log(1 + f) to f32.
TESSERA_FN float log_of(double e, double f) {
  const double less = log_1_plus_less(f);
  const double more = std::fma(e, kLn2ShortRest, f + less);
  return rounded_sum(e == 0 ? f : e * kLn2Short, e == 0 ? less : more);
}

/// What a logarithm is where its argument `of` is no positive number; there `value` is of 1.
TESSERA_FN float at_the_ends(float value, float of) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float outside = of == 0 ? -kInf : (of > 0 ? kInf : kNan);
  return of > 0 && of < kInf ? value : outside;
}
TESSERA_FN double inside(double of) {
  return of > 0 && of < std::numeric_limits<double>::infinity() ? of : 1.0;
}

}  // namespace detail

/// The natural logarithm.
TESSERA_FN float log(float x) {
  const auto [e, f] = detail::log_parts(detail::inside(x));
  return detail::at_the_ends(detail::log_of(e, f), x);
}

/// The binary logarithm.
TESSERA_FN float log2(float x) {
  const auto [e, f] = detail::log_parts(detail::inside(x));
  const double y = std::fma(f + detail::log_1_plus_less(f), kLog2e, e);
  return detail::at_the_ends(static_cast<float>(y), x);
}

/// log(1 + x).
TESSERA_FN float log1p(float x) {
  const double v = x;
  const auto [e, f] = detail::log_parts(detail::inside(1 + v));
  const bool near = e == 0;  // and 1 + v may have lost bits of v
  const float y = detail::log_of(e, near ? v : f);
  return detail::at_the_ends(except(y, x, 0x1.fb035ap-2f, 0x1.9bddc2p-2f), 1 + x);
}

}  // namespace tessera::exact
