// Sums of two f64, for the few values that f64 leaves undecided: about 2^-104 of a value.
// Dekker, Numerische Mathematik 18, 1971; with fused multiply-add, a product's error is one
// operation.
#pragma once

#include "sim/ops/exact/f64.hpp"

namespace tessera::exact {

struct DoubleDouble {
  double hi;
  double lo;  ///< at most half of the last bit of hi
};

/// For |a| >= |b|, or a = 0.
TESSERA_FN DoubleDouble normalised(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}
TESSERA_FN DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const double sum = a.hi + b.hi;
  const double of_b = sum - a.hi;
  const double lost = (a.hi - (sum - of_b)) + (b.hi - of_b);
  return normalised(sum, lost + (a.lo + b.lo));
}
TESSERA_FN DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const double product = a.hi * b.hi;
  return normalised(product, std::fma(a.hi, b.hi, -product) + (a.hi * b.lo + a.lo * b.hi));
}
TESSERA_FN DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const double quotient = a.hi / b.hi;
  const DoubleDouble taken = DoubleDouble{-quotient, 0} * b;
  const DoubleDouble left = a + taken;
  return normalised(quotient, left.hi / b.hi);
}

/// 2 atanh(s) = log((1 + s) / (1 - s)), for |s| < 0.172.
TESSERA_FN DoubleDouble twice_atanh(DoubleDouble s) {
  constexpr int kTerms = 22;  // 0.172^44 is 2^-111
  const DoubleDouble t = s * s;
  DoubleDouble sum{0, 0};
  for (int i = kTerms; i >= 0; --i)
    sum = sum * t + DoubleDouble{2, 0} / DoubleDouble{2.0 * i + 1, 0};
  return s * sum;
}
/// e^r for |r| < 0.35.
TESSERA_FN DoubleDouble series_of_exp(DoubleDouble r) {
  constexpr int kTerms = 24;  // 0.35^24 / 24! is 2^-115
  DoubleDouble sum{1, 0};
  for (int i = kTerms; i >= 1; --i) sum = sum * (r / DoubleDouble{1.0 * i, 0}) + DoubleDouble{1, 0};
  return sum;
}

}  // namespace tessera::exact
