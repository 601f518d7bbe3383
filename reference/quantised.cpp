#include "reference/quantised.hpp"

#include <cmath>
#include <cstdint>

#include "reference/xtensor_view.hpp"

namespace tessera::reference {

namespace {

constexpr std::size_t kCodes = 8;  // of a word

/// weight(code, place of its scale) and its error, of each code.
template <class Weight>
Quantised weights(const Tensor& words, std::size_t group, Weight weight) {
  const std::size_t n = words.shape[1];
  const std::size_t rows = words.shape[0] * kCodes;
  Tensor value{{rows, n}, std::vector<double>(rows * n)};
  Tensor error = value;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t j = 0; j < n; ++j) {
      const auto word = static_cast<std::uint32_t>(words.values[row / kCodes * n + j]);
      const std::uint32_t code = word >> (4 * (row % kCodes)) & 15U;
      // Rows that fill the last word up may be of no group.
      const std::size_t at = row / group * n + j;
      weight(code, at, value.values[row * n + j], error.values[row * n + j]);
    }
  }
  return {value, error};
}

Matrix first_rows(Tensor t, std::size_t rows) {
  t.shape[0] = rows;
  t.values.resize(rows * t.shape[1]);
  return to_matrix(t);
}

// Levels 1 to 7 and 8 to 15 are quantiles of a normal distribution, scaled to [-1, 0) and (0, 1].
constexpr double kNf4[16] = {-1.0,
                             -0.6961928009986877,
                             -0.5250730514526367,
                             -0.39491748809814453,
                             -0.28444138169288635,
                             -0.18477343022823334,
                             -0.09105003625154495,
                             0.0,
                             0.07958029955625534,
                             0.16093020141124725,
                             0.24611230194568634,
                             0.33791524171829224,
                             0.44070982933044434,
                             0.5626170039176941,
                             0.7229568362236023,
                             1.0};

}  // namespace

Quantised affine_weights(const Tensor& words, const Tensor& scale, const Tensor& zero,
                         std::size_t group, double roundoff) {
  return weights(words, group,
                 [&](std::uint32_t code, std::size_t at, double& value, double& error) {
                   if (at >= scale.values.size()) return;
                   value = (static_cast<double>(code) - zero.values[at]) * scale.values[at];
                   error = std::abs(value) * (2 * kU32 + roundoff) * (1 + 2 * roundoff);
                 });
}

Quantised nf4_weights(const Tensor& words, const Tensor& scale, std::size_t group,
                      double roundoff) {
  return weights(words, group,
                 [&](std::uint32_t code, std::size_t at, double& value, double& error) {
                   if (at >= scale.values.size()) return;
                   value = kNf4[code] * scale.values[at];
                   error = std::abs(value) * (2 * kU32 + roundoff) * (1 + 2 * roundoff);
                 });
}

Quantised int8_weights(const Tensor& bytes, const Tensor& scale, std::size_t group,
                       double roundoff) {
  const std::size_t n = bytes.shape[1];
  Quantised w{bytes, bytes};
  for (std::size_t i = 0; i < bytes.values.size(); ++i) {
    w.value.values[i] = bytes.values[i] * scale.values[i / n / group * n + i % n];
    w.error.values[i] = std::abs(w.value.values[i]) * (2 * kU32 + roundoff) * (1 + 2 * roundoff);
  }
  return w;
}

Quantised mxfp4_weights(const Tensor& words, const Tensor& exponent, std::size_t group,
                        double roundoff) {
  return weights(words, group,
                 [&](std::uint32_t code, std::size_t at, double& value, double& error) {
                   if (at >= exponent.values.size()) return;
                   // A bit of fraction; exponents from 1 on have a one before it, 0 is subnormal.
                   const auto e = static_cast<int>(code >> 1 & 3U);
                   const double fraction = (code & 1U) != 0 ? 0.5 : 0;
                   const double size = e == 0 ? fraction : std::ldexp(1 + fraction, e - 1);
                   const double power = exponent.values[at];
                   value = power == 255 ? NAN : std::ldexp(size, static_cast<int>(power) - 127);
                   if ((code & 8U) != 0) value = -value;
                   error = std::abs(value) * roundoff * (1 + 2 * roundoff);
                 });
}

Expected quantised_matmul(const Tensor& x, const Quantised& w) {
  const Matrix left = to_matrix(x);
  const Matrix right = first_rows(w.value, left.shape(1));
  const Matrix off = first_rows(w.error, left.shape(1));
  const Matrix sizes = xt::abs(left);
  const Matrix from_weights = product(sizes, off);
  const Matrix most = xt::abs(right) + off;
  const Matrix error = product_error(left, most) + from_weights;
  return {to_tensor(product(left, right)), to_tensor(error)};
}

}  // namespace tessera::reference
