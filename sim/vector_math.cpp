#include "sim/vector_math.hpp"

#include <algorithm>
#include <bit>
#include <xsimd/xsimd.hpp>

#include "sim/ops/exp.hpp"
#include "sim/ops/exp2.hpp"

namespace tessera {

namespace {

/// `least`, `most`: between them results are normal floats; `zero`: up to there they round to 0.
struct Range {
  float least;
  float most;
  float zero;
};

using Lanes = xsimd::batch<double>;

/// e^r * 2^k within 40 ulp of f64: `shifted` is k + kShift, |r| <= ln(2) / 2. The series ends at
/// r^11 / 11!, which leaves r^12 / 12! = 2^-47.
constexpr double kShift = 0x1.8p52;  ///< what is added to it is rounded to an integer
Lanes exp_of_parts(const Lanes& shifted, const Lanes& r) {
  Lanes e(1.0 / 39916800);
  for (const double factorial :
       {3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0})
    e = xsimd::fma(e, r, Lanes(1.0 / factorial));
  const auto exponent = xsimd::bitwise_cast<xsimd::batch<std::uint64_t>>(shifted) << 52;
  return xsimd::bitwise_cast<Lanes>(xsimd::bitwise_cast<xsimd::batch<std::uint64_t>>(e) + exponent);
}

/// How near a midpoint, relative to the value, is too near.
constexpr double kNear = 0x1p-46;

template <class Op, class F>
void rows(float* out, const float* in, std::int64_t n, Range range, F&& function) {
  constexpr std::int64_t kChunk = 256;
  alignas(64) double x[kChunk];
  alignas(64) std::uint32_t doubtful[kChunk];
  for (std::int64_t first = 0; first < n; first += kChunk) {
    const std::int64_t m = std::min(kChunk, n - first);
    const float* const from = in + first;
    float* const to = out + first;
    for (std::int64_t i = 0; i < m; ++i) {
      const float v = from[i] > range.least ? from[i] : range.least;
      x[i] = static_cast<double>(v < range.most ? v : range.most);
    }
    for (std::int64_t i = m; i % static_cast<std::int64_t>(Lanes::size) != 0; ++i) x[i] = 0;
    for (std::int64_t i = 0; i < m; i += static_cast<std::int64_t>(Lanes::size))
      function(Lanes::load_aligned(x + i)).store_aligned(x + i);
    std::uint32_t any = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      const auto below = static_cast<float>(x[i] - x[i] * kNear);
      const auto above = static_cast<float>(x[i] + x[i] * kNear);
      const float v = from[i];
      const bool sure = (below == above) & (v > range.least) & (v < range.most);
      const bool gone = v <= range.zero;
      doubtful[i] = (gone | sure) ? 0 : 1;
      any |= doubtful[i];
      to[i] = gone ? 0.0f : below;
    }
    if (any == 0) continue;
    for (std::int64_t i = 0; i < m; ++i) {
      if (doubtful[i] != 0) to[i] = Op::apply(from[i]);
    }
  }
}

}  // namespace

void exp_rows(float* out, const float* in, std::int64_t n) {
  rows<Exp>(out, in, n, {-87.3f, 88.7f, -104.0f}, [](const Lanes& v) {
    constexpr double kLog2e = 0x1.71547652b82fep0;
    constexpr double kLn2 = 0x1.62e42fefap-1;  // and its rest: k times the first is exact
    constexpr double kLn2Rest = 0x1.cf79abc9e3b3ap-40;
    const Lanes shifted = v * kLog2e + kShift;
    const Lanes k = shifted - kShift;
    return exp_of_parts(shifted, (v - k * kLn2) - k * kLn2Rest);
  });
}
void exp2_rows(float* out, const float* in, std::int64_t n) {
  rows<Exp2>(out, in, n, {-125.9f, 127.9f, -150.0f}, [](const Lanes& v) {
    constexpr double kLn2 = 0x1.62e42fefa39efp-1;
    const Lanes shifted = v + kShift;
    return exp_of_parts(shifted, (v - (shifted - kShift)) * kLn2);
  });
}

}  // namespace tessera
