#pragma once

#include <bit>

#include "sim/ops/op.hpp"

namespace tessera {

/// The logistic function. Near 0 it is 1/2 + a/4, which may be the midpoint of two floats, less
/// a^3/48, which f64 may be too coarse to keep: that part then says which way to round.
struct Logistic {
  static constexpr OpInfo info{.name = "logistic",
                               .math = "1 / (1 + e^-a)",
                               .mosaic = "",
                               .arity = 1,
                               .max_ulp = 0.5,
                               .flops = 3,
                               .transcendental = true};

  template <class T>
  TESSERA_FN static T apply(T a) {
    const auto wide = static_cast<Wide<T>>(a);
    if constexpr (std::is_same_v<T, float>) {
      if (std::abs(wide) < 0x1p-8) return static_cast<T>(near_half(wide));
    }
    return static_cast<T>(1 / (1 + std::exp(-wide)));
  }

 private:
  /// Of |a| < 2^-8 that is a float: rounds to the float that the exact value rounds to.
  TESSERA_FN static double near_half(double a) {
    const double line = 0.5 + a * 0.25;  // exact, but for a far from any midpoint
    const double square = a * a;
    const double rest = a * square * (square * (1.0 / 480) - 1.0 / 48);
    const double sum = line + rest;
    const double lost = rest - (sum - line);
    const auto bits = std::bit_cast<std::uint64_t>(sum);
    constexpr std::uint64_t kLeftOff = (std::uint64_t{1} << 29) - 1;  // f64's bits beyond f32's
    constexpr std::uint64_t kMidpoint = std::uint64_t{1} << 28;
    if (lost == 0 || (bits & kLeftOff) != kMidpoint) return sum;
    return std::bit_cast<double>(lost > 0 ? bits + 1 : bits - 1);
  }
};

template <TileLike A>
TESSERA_FN auto logistic(const A& a) {
  return A::Backend::template map<Logistic>(a);
}

}  // namespace tessera
