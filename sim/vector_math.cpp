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

/// xsimd's exp and exp2 of f64 are within 2 ulp; this is how near a midpoint is too near.
constexpr std::uint64_t kUlps = 16;

template <class Op, class F>
void rows(float* out, const float* in, std::int64_t n, Range range, F&& function) {
  constexpr std::int64_t kChunk = 256;
  using Lanes = xsimd::batch<double>;
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
      // An f32 keeps 23 of the 52 bits: half of the last one is bit 28 of the rest.
      constexpr std::uint64_t kRest = (std::uint64_t{1} << 29) - 1;
      constexpr std::uint64_t kHalf = std::uint64_t{1} << 28;
      const std::uint64_t rest = std::bit_cast<std::uint64_t>(x[i]) & kRest;
      const float v = from[i];
      const bool inside = v > range.least && v < range.most;
      const bool near = rest - (kHalf - kUlps) <= 2 * kUlps;
      const bool gone = v <= range.zero;
      doubtful[i] = (!gone && (near || !inside)) ? 1 : 0;
      any |= doubtful[i];
      to[i] = gone ? 0.0f : static_cast<float>(x[i]);
    }
    if (any == 0) continue;
    for (std::int64_t i = 0; i < m; ++i) {
      if (doubtful[i] != 0) to[i] = Op::apply(from[i]);
    }
  }
}

}  // namespace

void exp_rows(float* out, const float* in, std::int64_t n) {
  rows<Exp>(out, in, n, {-87.3f, 88.7f, -104.0f}, [](const auto& v) { return xsimd::exp(v); });
}
void exp2_rows(float* out, const float* in, std::int64_t n) {
  rows<Exp2>(out, in, n, {-125.9f, 127.9f, -150.0f}, [](const auto& v) { return xsimd::exp2(v); });
}

}  // namespace tessera
