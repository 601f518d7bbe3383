#include "sim/numerics/libdevice.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sim/numerics/mufu.hpp"

namespace tessera::libdevice {

namespace {

constexpr float kLeast = std::numeric_limits<float>::min();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLog2E = 0x1.715476p+0f;
constexpr std::uint32_t kExponents = 0xff800000u;  // and the sign

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
float value(std::uint32_t b) { return std::bit_cast<float>(b); }

}  // namespace

float flushed(float x) { return std::fabs(x) < kLeast ? std::copysign(0.f, x) : x; }

namespace {

/// fma.rn.ftz.f32, or without ftz.
template <bool kFlush = true>
float fma(float a, float b, float c) {
  if constexpr (kFlush) return flushed(std::fma(flushed(a), flushed(b), flushed(c)));
  return std::fma(a, b, c);
}
/// A polynomial by Horner's rule, the first coefficient that of the highest power.
template <bool kFlush = true, std::size_t kTerms>
float polynomial(const std::array<float, kTerms>& c, float x) {
  float p = c[0];
  for (std::size_t i = 1; i < kTerms; ++i) p = fma<kFlush>(p, x, c[i]);
  return p;
}

/// x = m 2^e: what is taken from x's bits, and e.
struct Scaled {
  float from;  ///< x, or x 2^23 where x is subnormal
  float m;
  float e;
};
/// `least`: the bits of the smallest m.
Scaled scaled(float x, std::uint32_t least) {
  const bool subnormal = x < kLeast;
  const float from = subnormal ? x * 0x1p23f : x;
  const std::uint32_t power = (bits(from) - least) & kExponents;
  const auto whole = static_cast<float>(static_cast<std::int32_t>(power));
  return {from, value(bits(from) - power), fma(whole, 0x1p-23f, subnormal ? -23.f : 0.f)};
}
/// The logarithm's value at zero, infinity and what has none, else r.
float logarithm(float from, float r) {
  if (from == 0) return -kInfinity;
  return bits(from) >= 0x7f800000u ? fma(from, kInfinity, kInfinity) : r;
}

template <bool kFlush>
float tanh_of(float x) {
  const float size = std::fabs(x);
  if (size >= 0x1.333334p-1f) {
    const float r = fma<kFlush>(mufu::rcp(mufu::ex2(size * 0x1.715476p+1f) + 1.f), -2.f, 1.f);
    return std::copysign(size >= 0x1.205968p+3f ? 1.f : r, x);
  }
  const float p = polynomial<kFlush, 5>(
      {0x1.01e104p-6f, -0x1.ac795cp-5f, 0x1.10b282p-3f, -0x1.5553dap-2f, 0.f}, x * x);
  return fma<kFlush>(p, x, x);
}

/// x less some quarters of 2 pi.
struct Turned {
  float rest;
  std::int32_t quarters;
};
/// By the bits of 2 / pi (Payne and Hanek), for large x.
Turned turned_far(float x) {
  constexpr std::array<std::uint32_t, 6> kTwoOverPi{0x3c439041, 0xdb629599, 0xf534ddc0,
                                                    0xfc2757d1, 0x4e441529, 0xa2f9836e};
  const std::uint32_t b = bits(x);
  const std::uint32_t significand = b << 8 | 0x80000000u;
  std::array<std::uint32_t, 7> product{};
  std::uint64_t carried = 0;
  for (std::size_t i = 0; i < kTwoOverPi.size(); ++i) {
    carried += std::uint64_t{kTwoOverPi[i]} * significand;
    product[i] = static_cast<std::uint32_t>(carried);
    carried >>= 32;
  }
  product[6] = static_cast<std::uint32_t>(carried);
  const std::uint32_t exponent = b >> 23 & 0xffu;
  const std::size_t word = 6 - ((exponent & 0xe0u) - 128) / 32;
  const std::uint32_t shift = exponent & 31u;
  const auto funnel = [](std::uint32_t low, std::uint32_t high, std::uint32_t by) {
    return by == 0 ? high : high << by | low >> (32 - by);
  };
  std::uint32_t high = funnel(product[word - 1], product[word], shift);
  std::uint32_t low = funnel(product[word - 2], product[word - 1], shift);
  std::uint32_t quarters = high >> 30;
  high = funnel(low, high, 2);
  low <<= 2;
  quarters += high >> 31;
  const bool over = (high >> 31) != 0;
  const bool negative = (b >> 31) != 0;
  const std::uint32_t flip = over ? ~0u : 0u;
  const auto fraction = static_cast<std::int64_t>(std::uint64_t{high ^ flip} << 32 | (low ^ flip));
  const auto rest = static_cast<float>(static_cast<double>(fraction) * 0x1.921fb54442d19p-64);
  const auto taken = static_cast<std::int32_t>(quarters);
  return {over != negative ? -rest : rest, negative ? -taken : taken};
}
Turned turned(float x) {
  const float size = std::fabs(x);
  if (size == kInfinity) return {std::numeric_limits<float>::quiet_NaN(), 0};
  if (size >= 0x1.9c8fp+16f) return turned_far(x);
  if (x != x) return {x, 0};
  const auto taken = static_cast<std::int32_t>(std::nearbyint(flushed(x * 0x1.45f306p-1f)));
  const auto quarters = static_cast<float>(taken);  // 0 has no sign
  float rest = fma(quarters, -0x1.921fb4p+0f, x);
  rest = fma(quarters, -0x1.4442dp-24f, rest);
  rest = fma(quarters, -0x1.84698ap-48f, rest);
  return {rest, taken};
}
float wave(const Turned& t, std::int32_t quarters) {
  const float square = flushed(flushed(t.rest) * flushed(t.rest));
  const bool cosine = (quarters & 1) != 0;
  const float first = cosine ? 1.f : t.rest;
  const float p =
      cosine ? polynomial<true, 4>(
                   {0x1.9758p-16f, -0x1.6c0fdap-10f, 0x1.555576p-5f, -0x1.fffffep-2f}, square)
             : polynomial<true, 3>({-0x1.9a82a6p-13f, 0x1.110bc8p-7f, -0x1.55555p-3f}, square);
  const float r = fma(p, fma(square, first, 0.f), first);
  return (quarters & 2) != 0 ? fma(r, -1.f, 0.f) : r;
}

}  // namespace

float exp(float x) {
  // ex2.approx.f32: a subnormal result is the square of that of half the argument.
  const float t = x * kLog2E;
  if (!(t < -126.f)) return mufu::ex2(t);
  const float root = mufu::ex2(t * 0.5f);
  return root * root;
}

float expf(float x) {
  // cvt.sat: a NaN is 0 too.
  const float of_range = fma(x, 0x1.77313ap-8f, 0.5f);
  const float saturated = of_range > 0 ? (of_range < 1 ? of_range : 1.f) : 0.f;
  // One product and sum rounded downward: a whole number, its lowest bits the power of 2.
  const float whole =
      0x1.800002p+23f + static_cast<float>(std::floor(static_cast<double>(saturated) * 252.0));
  const float e = whole - 0x1.8000fep+23f;
  const float rest = fma(x, 0x1.4ae0cp-26f, fma(x, kLog2E, -e));
  return mufu::ex2(rest) * value(bits(whole) << 23);
}

float exp2(float x) { return mufu::ex2(x); }

float log(float x) {
  const Scaled s = scaled(x, 0x3f2aaaabu);
  const float m = s.m - 1.f;
  const float p =
      polynomial<true, 9>({-0x1.0aa04ep-3f, 0x1.2073ecp-3f, -0x1.f19b98p-4f, 0x1.1e52aap-3f,
                           -0x1.55b172p-3f, 0x1.99da16p-3f, -0x1.fffe44p-3f, 0x1.5554fp-2f, -0.5f},
                          m);
  return logarithm(s.from, fma(s.e, 0x1.62e43p-1f, fma(m * p, m, m)));
}

float log2(float x) {
  const Scaled s = scaled(x, 0x3f3504f3u);
  const float m = s.m - 1.f;
  const float p = polynomial<true, 10>(
      {0x1.8d64fep-4f, -0x1.58fe6p-3f, 0x1.5f9e54p-3f, -0x1.6e9c86p-3f, 0x1.a417e8p-3f,
       -0x1.ec7916p-3f, 0x1.277f32p-2f, -0x1.715492p-2f, 0x1.ec7094p-2f, -0x1.715476p-1f},
      m);
  return logarithm(s.from, fma(m, kLog2E, p * m * m) + s.e);
}

float log1p(float x) {
  // 1 + x toward zero, for its exponent alone.
  const float one = flushed(x);
  float sum = one + 1.f;
  const float part = sum - 1.f;
  const float error = (1.f - (sum - part)) + (one - part);
  if (sum > 0 ? error < 0 : error > 0) sum = value(bits(sum) - 1);
  const std::uint32_t power = (bits(sum) - 0x3f400000u) & kExponents;
  const float m = fma(0.25f, value(0x40800000u - power), -1.f) + value(bits(x) - power);
  const float e = static_cast<float>(static_cast<std::int32_t>(power)) * 0x1p-23f;
  const float p =
      polynomial<true, 9>({-0x1.737efp-5f, 0x1.b00024p-4f, -0x1.0ef1cp-3f, 0x1.28c8eap-3f,
                           -0x1.54d1bap-3f, 0x1.995f3cp-3f, -0x1.000084p-2f, 0x1.5555ccp-2f, -0.5f},
                          m);
  const float r = fma(e, 0x1.62e43p-1f, fma(m * p, m, m));
  if (bits(x) < 0x7f800000u) return r;
  if (x == 0) return -0.f;
  // Negative, infinite or a NaN.
  return static_cast<std::int32_t>(bits(x)) < -0x407fffff ? r : fma(x, kInfinity, kInfinity);
}

float sin(float x) {
  const Turned t = turned(x);
  return wave(t, t.quarters);
}
float cos(float x) {
  const Turned t = turned(x);
  return wave(t, t.quarters + 1);
}

float tanh(float x) { return tanh_of<true>(x); }

float erf(float x) {
  constexpr std::array<float, 7> kSmall{0x1.63d2d4p-14f, -0x1.ae9a4p-11f, 0x1.55abd4p-8f,
                                        -0x1.b837cep-6f, 0x1.ce315ep-4f,  -0x1.812758p-2f,
                                        0x1.06eba6p-3f};
  constexpr std::array<float, 7> kLarge{0x1.139478p-16f, -0x1.eac172p-12f, 0x1.590816p-8f,
                                        -0x1.1902c4p-5f, 0x1.39f20cp-3f,   0x1.d526fcp-1f,
                                        0x1.41b084p-1f};
  const float size = std::fabs(flushed(x));
  const bool large = size >= 0x1.00c1fcp+0f;  // false of NaN
  const float r =
      large ? fma(polynomial(kLarge, size), -size, -size) : fma(polynomial(kSmall, x * x), x, x);
  return large ? std::copysign(1.f - mufu::ex2(r), x) : r;
}

float sqrt(float x) { return mufu::sqrt(x); }
float rsqrt(float x) { return mufu::rsqrt(x); }

float div(float a, float b) {
  const float size = std::fabs(b);
  const float scale = size > 0x1p126f ? 0.25f : !(size >= kLeast) ? 0x1p24f : 1.f;
  return mufu::rcp(b * scale) * (a * scale);
}

float rem(float a, float b) { return std::isinf(b) ? a : std::fma(-std::trunc(a / b), b, a); }

float tanh_with_subnormals(float x) { return tanh_of<false>(x); }

}  // namespace tessera::libdevice
