#include "sim/numerics/mufu.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <iterator>
#include <limits>

#include "sim/numerics/mufu_tables.hpp"

namespace tessera::mufu {

namespace {

constexpr std::uint32_t kSign = 0x80000000u;
constexpr std::uint32_t kInfinity = 0x7f800000u;
constexpr std::uint32_t kNaN = 0x7fffffffu;
constexpr std::uint32_t kOne = 0x3f800000u;
constexpr int kFraction = 23;
constexpr std::uint32_t kFractionMask = (1u << kFraction) - 1;

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
float value(std::uint32_t b) { return std::bit_cast<float>(b); }

/// d squared as the unit has it, in units of the lowest column it keeps: of the products of bits,
/// d_j d_k for j <= k, it leaves out those in columns below that one.
template <int kBits, int kColumn>
std::array<std::uint16_t, std::size_t{1} << kBits> squares() {
  std::array<std::uint16_t, std::size_t{1} << kBits> table{};
  for (std::uint32_t d = 0; d < table.size(); ++d) {
    std::uint64_t square = 0;
    for (int j = 0; j < kBits; ++j) {
      if ((d >> j & 1u) == 0) continue;
      if (2 * j >= kColumn) square += std::uint64_t{1} << (2 * j);
      // The bits above j whose products with it are kept: those from kColumn - j - 1.
      const int first = j + 1 > kColumn - j - 1 ? j + 1 : kColumn - j - 1;
      if (first < kBits) square += std::uint64_t{d >> first << first} << (j + 1);
    }
    table[d] = static_cast<std::uint16_t>(square >> kColumn);
  }
  return table;
}

/// The quadratic of the segment that the fraction's upper bits choose, in units of its last place.
template <int kBits, int kColumn>
std::int64_t quadratic(const Segment* segments, std::uint32_t fraction, int shift) {
  static const auto square = squares<kBits, kColumn>();
  const Segment& s = segments[fraction >> kBits];
  const std::uint32_t d = fraction & ((1u << kBits) - 1);
  return (std::int64_t{s.c0} << shift) + std::int64_t{s.c1} * d + std::int64_t{s.c2} * square[d];
}
/// Of the functions with 64 segments an octave.
std::int64_t wide(const Segment* segments, std::uint32_t fraction, int shift) {
  return quadratic<17, 19>(segments, fraction, shift);
}

bool is_nan(std::uint32_t b) { return (b & ~kSign) > kInfinity; }
/// Zero, or a subnormal, which the instructions take for zero.
bool is_zero(std::uint32_t b) { return (b & kInfinity) == 0; }
int exponent(std::uint32_t b) { return static_cast<int>(b >> kFraction & 0xffu) - 127; }

/// A fixed-point number below 2^53, not negative, as a float, cut.
std::uint32_t cut(std::int64_t fixed, int point) {
  // A double has all of its bits, and a float's at their head.
  constexpr int kHead = 52 - kFraction;
  const auto head =
      static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(static_cast<double>(fixed)) >> kHead);
  const auto bias = static_cast<std::uint32_t>(1023 - 127 + point) << kFraction;
  return fixed == 0 ? 0 : head - bias;
}

/// A significand times 2^shift, cut, modulo 2^32.
std::uint32_t shifted(std::uint64_t significand, int shift) {
  const int back = 32 - shift;
  return static_cast<std::uint32_t>((significand << 32) >> (back < 0 ? 0 : back > 63 ? 63 : back));
}
std::uint64_t significand(std::uint32_t b) { return (b & kFractionMask) | (1u << kFraction); }

/// The first quarter of a sine, of fraction / 2^23 of it.
std::uint32_t quarter(std::uint32_t fraction) { return cut(wide(kSine, fraction, 11), 37); }

bf16 cut_to_bf16(float x) {
  bf16 y;
  y.bits = static_cast<std::uint16_t>(bits(x) >> 16);
  return y;
}

/// x / (2 pi) in units of 2^-kTurn, cut: the code before the instruction has one product, a float.
constexpr int kTurn = 25;  // bits of a turn that are looked at
std::uint32_t turns(std::uint32_t b) {
  constexpr std::uint64_t kReciprocal = 0x22f983u | (1u << kFraction);  // 0.15915494, 2^-3 1.27
  const std::uint64_t product = kReciprocal * significand(b);           // in [2^46, 2^48)
  const int carry = static_cast<int>(product >> 47);
  return shifted(product >> (kFraction + carry), exponent(b) - 3 + carry + kTurn - kFraction);
}

/// sin of x, or of x + a quarter.
float wave(float x, std::uint32_t ahead) {
  const std::uint32_t b = bits(x);
  if ((b & ~kSign) >= kInfinity) return value(kNaN);
  const std::uint32_t of_turn = turns(b);
  const std::uint32_t quadrant = ((of_turn >> kFraction) + ahead) & 3u;
  const std::uint32_t fraction = of_turn & kFractionMask;
  const std::uint32_t back = 0u - (quadrant & 1u);  // all ones where the sine falls
  const std::uint32_t size = quarter(fraction ^ (back & kFractionMask));
  const std::uint32_t sign = ((quadrant & 2u) << 30) ^ (ahead == 0 ? b & kSign : 0);
  return value(size | sign);
}

}  // namespace

float ex2(float x) {
  const std::uint32_t b = bits(x);
  if (is_nan(b)) return value(kNaN);
  const bool negative = (b & kSign) != 0;
  if (is_zero(b)) return 1.f;
  if (exponent(b) >= 8) return negative ? 0.f : value(kInfinity);
  // The complement stands for the negative, but of a whole number. (No branches: signs are random.)
  const std::int64_t size = shifted(significand(b), exponent(b));
  const std::int64_t complement = negative ? -1 : 0;
  const std::int64_t whole = (size & kFractionMask) == 0 ? 1 : 0;
  const std::int64_t argument = (size ^ complement) - (complement & -whole);
  const auto e = static_cast<int>(argument >> kFraction);
  const std::int64_t v =
      wide(kExp2, static_cast<std::uint32_t>(argument) & kFractionMask, 13) + 6114;
  const std::int64_t result = (std::int64_t{e + 126} << kFraction) + (v >> 15);
  if (e >= 128) return value(kInfinity);
  if (e < -126) return 0.f;
  return value(static_cast<std::uint32_t>(result));
}

float lg2(float x) {
  const std::uint32_t b = bits(x);
  if (is_nan(b)) return value(kNaN);
  if (is_zero(b)) return value(kSign | kInfinity);
  if ((b & kSign) != 0) return value(kNaN);
  if (b == kInfinity) return x;
  if (b == kOne) return 0.f;
  constexpr int kPoint = 36;
  const std::int64_t fraction = (wide(kLog2, b & kFractionMask, 12) + 837) >> 2;
  const std::int64_t v = (std::int64_t{exponent(b)} << kPoint) + fraction;
  return value(v >= 0 ? cut(v, kPoint) : kSign | cut(~v, kPoint));
}

float rcp(float x) {
  const std::uint32_t b = bits(x);
  if (is_nan(b)) return value(kNaN);
  const std::uint32_t sign = b & kSign;
  if (is_zero(b)) return value(sign | kInfinity);
  if ((b & ~kSign) == kInfinity) return value(sign);
  const std::int64_t v = quadratic<16, 17>(kReciprocal, b & kFractionMask, 13) + 2023;
  const std::int64_t result = (std::int64_t{125 - exponent(b)} << kFraction) + (v >> 15);
  if (result < (std::int64_t{1} << kFraction)) return value(sign);
  return value(sign | static_cast<std::uint32_t>(result));
}

float rsqrt(float x) {
  const std::uint32_t b = bits(x);
  if (is_nan(b)) return value(kNaN);
  if (is_zero(b)) return value((b & kSign) | kInfinity);
  if ((b & kSign) != 0) return value(kNaN);
  if (b == kInfinity) return 0.f;
  const int odd = exponent(b) & 1;
  const int half = (exponent(b) - odd) / 2;
  if (odd == 0 && (b & kFractionMask) == 0)
    return value(static_cast<std::uint32_t>(127 - half) << kFraction);
  const std::int64_t v = wide(kRsqrt + 64 * odd, b & kFractionMask, 14) - 1;
  return value(static_cast<std::uint32_t>((std::int64_t{125 - half} << kFraction) + (v >> 16)));
}

float sqrt(float x) {
  const std::uint32_t b = bits(x);
  if (is_nan(b)) return value(kNaN);
  if (is_zero(b)) return value(b & kSign);
  if ((b & kSign) != 0) return value(kNaN);
  if (b == kInfinity) return x;
  const int odd = exponent(b) & 1;
  const int half = (exponent(b) - odd) / 2;
  const std::int64_t v = wide(kSqrt + 64 * odd, b & kFractionMask, 15) - 1;
  return value(static_cast<std::uint32_t>((std::int64_t{126 + half} << kFraction) + (v >> 17)));
}

float tanh(float x) {
  struct Octave {
    std::uint32_t first;  // segment
    int segments;         // log2
    int point;
  };
  constexpr int kLeast = -8;
  constexpr Octave kOctaves[] = {{0, 0, 39},  {1, 0, 38},  {2, 0, 37},  {3, 1, 38},
                                 {5, 1, 37},  {7, 2, 38},  {11, 2, 37}, {15, 2, 36},
                                 {19, 3, 37}, {27, 4, 39}, {43, 3, 37}};
  constexpr int kMost = kLeast + static_cast<int>(std::size(kOctaves)) - 1;
  const std::uint32_t b = bits(x);
  if (is_nan(b)) return value(kNaN);
  const int e = exponent(b);
  if (e < kLeast) return x;
  const std::uint32_t sign = b & kSign;
  if (e > kMost) return value(sign | kOne);
  const Octave& o = kOctaves[e - kLeast];
  const std::uint32_t in_segments = (b & kFractionMask) >> (6 - o.segments);
  return value(sign | cut(wide(kTanh, (o.first << 17) + in_segments, 15), o.point));
}

float sin(float x) { return wave(x, 0); }
float cos(float x) { return wave(x, 1); }

bf16 ex2_bf16(bf16 x) { return cut_to_bf16(ex2(convert<float>(x))); }
bf16 tanh_bf16(bf16 x) { return cut_to_bf16(tanh(convert<float>(x))); }

}  // namespace tessera::mufu
