// sin and cos of f32 in radians, correctly rounded.
//
// x = n pi/2 + r with |r| <= pi/4, then polynomials through the Chebyshev points. Up to 2^20, n is
// short and two fused multiply-adds subtract it from x; beyond, x 2/pi is computed mod 4 from the
// 96 bits of 2/pi that matter (Payne & Hanek, SIGNUM 18(1), 1983), of which 62 are kept.
#pragma once

#include "sim/ops/exact/f64.hpp"

namespace tessera::exact {

namespace detail {

struct Reduced {
  double r;
  std::uint32_t quadrant;  ///< n mod 4
};

/// For |x| < 2^20.
TESSERA_FN Reduced reduce_short(double x) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kHigh = 0x1.921fb544p0;  // 32 bits of pi/2: n times it is exact
  constexpr double kRest = 0x1.0b4611a626331p-34;
  const double shifted = std::fma(x, kTwoOverPi, kToInteger);
  const double n = shifted - kToInteger;
  return {std::fma(n, -kRest, std::fma(n, -kHigh, x)),
          static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(shifted)) & 3};
}

/// For finite x with 2^20 <= |x|.
TESSERA_FN Reduced reduce_long(float x) {
  // 2/pi, 32 bits each, after a word of zeros.
  constexpr int kWords = 8;
  static constexpr std::uint32_t kTwoOverPi[kWords] = {
      0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint64_t m = (bits & 0x7fffff) | 0x800000;     // |x| = m 2^e
  const int e = static_cast<int>(bits >> 23 & 0xff) - 150;  // -3 .. 104
  // m 2^e times a bit of 2/pi worth 2^(2 - e) or more is 0 mod 4: the 96 bits that follow.
  const int first = e - 2 + 32;
  const std::uint32_t* const w = kTwoOverPi + first / 32;
  const int by = first % 32;
  const auto word = [&](int i) {
    return (static_cast<std::uint64_t>(w[i]) << 32 | w[i + 1]) >> (32 - by) & 0xffffffff;
  };
  const std::uint64_t p = (m * word(0) << 32) + m * word(1) + (m * word(2) >> 32);  // 2^62 is 1
  const auto n = static_cast<std::uint32_t>((p + (std::uint64_t{1} << 61)) >> 62);
  constexpr double kHalfPi = 0x1.921fb54442d18p0;
  const double r = static_cast<double>(static_cast<std::int64_t>(p << 2)) * (kHalfPi * 0x1p-64);
  return bits >> 31 != 0 ? Reduced{-r, -n & 3} : Reduced{r, n & 3};
}

TESSERA_FN Reduced reduce(float x) {
  return std::fabs(x) < 0x1p20f ? reduce_short(x) : reduce_long(x);
}

/// sin(x + quarters pi/2) of a reduced x.
TESSERA_FN double sin_of(Reduced x, std::uint32_t quarters) {
  const std::uint32_t n = x.quadrant + quarters;
  const double r = x.r;
  const double t = r * r;
  const double s = polynomial(t, -0x1.ab17d3985bccep-41, 0x1.61217f0ac7f98p-33,
                              -0x1.ae645412c4787p-26, 0x1.71de3a5460952p-19, -0x1.a01a01a019938p-13,
                              0x1.1111111111110p-7, -0x1.5555555555555p-3);
  const double c = polynomial(t, 0x1.ab785aa02d659p-45, -0x1.9394ba0c332d9p-37,
                              0x1.1eed8deb97423p-29, -0x1.27e4fb7712d61p-22, 0x1.a01a01a019d0ap-16,
                              -0x1.6c16c16c16c16p-10, 0x1.5555555555555p-5);
  const double sine = std::fma(r * t, s, r);
  const double cosine = std::fma(t * t, c, std::fma(-0.5, t, 1.0));
  const double y = (n & 1) != 0 ? cosine : sine;
  return (n & 2) != 0 ? -y : y;
}

}  // namespace detail

/// The sine; NaN of the infinities.
TESSERA_FN float sin(float x) {
  if (!(std::fabs(x) < std::numeric_limits<float>::infinity())) return x - x;
  if (x == 0) return x;
  const auto y = static_cast<float>(detail::sin_of(detail::reduce(x), 0));
  return except(except(y, x, 0x1.33333p13f, -0x1.63f4bap-2f), x, -0x1.33333p13f, 0x1.63f4bap-2f);
}

/// The cosine; NaN of the infinities.
TESSERA_FN float cos(float x) {
  if (!(std::fabs(x) < std::numeric_limits<float>::infinity())) return x - x;
  const auto y = static_cast<float>(detail::sin_of(detail::reduce(x), 1));
  const float size = std::fabs(x);
  return except(except(y, size, 0x1.3170fp63f, 0x1.fe2976p-1f), size, 0x1.2b9622p67f,
                0x1.f0285ep-1f);
}

}  // namespace tessera::exact
