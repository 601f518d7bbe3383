#include "reference/quantised.hpp"

#include <cmath>
#include <cstdint>

#include "reference/xtensor_view.hpp"

namespace tessera::reference {

namespace {

constexpr std::size_t kCodes = 8;  // of a word

/// weight(code, place of its scale), its error and its size, of each code.
template <class Weight>
Quantised weights(const Tensor& words, std::size_t group, Weight weight) {
  const std::size_t n = words.shape[1];
  const std::size_t rows = words.shape[0] * kCodes;
  Tensor value{{rows, n}, std::vector<double>(rows * n)};
  Tensor error = value;
  Tensor size = value;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t j = 0; j < n; ++j) {
      const auto word = static_cast<std::uint32_t>(words.values[row / kCodes * n + j]);
      const std::uint32_t code = word >> (4 * (row % kCodes)) & 15U;
      // Rows that fill the last word up may be of no group.
      const std::size_t at = row / group * n + j;
      const std::size_t place = row * n + j;
      weight(code, at, value.values[place], error.values[place], size.values[place]);
    }
  }
  return {value, error, size};
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

/// A sign, two bits of exponent, one of fraction, with a one before it from exponent 1 on.
double e2m1(std::uint32_t code) {
  const auto e = static_cast<int>(code >> 1 & 3U);
  const double fraction = (code & 1U) != 0 ? 0.5 : 0;
  const double magnitude = e == 0 ? fraction : std::ldexp(1 + fraction, e - 1);
  return (code & 8U) != 0 ? -magnitude : magnitude;
}
double power_of(double exponent) {
  return exponent == 255 ? NAN : std::ldexp(1, static_cast<int>(exponent) - 127);
}

/// Of its bits: four of exponent from -7 on, three of fraction; all ones are NaN.
double e4m3(double bits) {
  const auto all = static_cast<unsigned>(bits);
  const auto e = static_cast<int>(all >> 3 & 15U);
  const double fraction = (all & 7U) / 8.;
  double number = e == 0 ? std::ldexp(fraction, -6) : std::ldexp(1 + fraction, e - 7);
  if ((all & 127U) == 127) number = NAN;
  return (all & 128U) != 0 ? -number : number;
}

/// Rows (k, n) times factor(place of its group's).
template <class Factor>
Quantised scaled_rows(const Tensor& rows, std::size_t group, double roundoff, Factor factor) {
  const std::size_t n = rows.shape[1];
  Quantised w{rows, rows, rows};
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    w.value.values[i] = rows.values[i] * factor(i / n / group * n + i % n);
    w.size.values[i] = std::abs(w.value.values[i]);
    w.error.values[i] = w.size.values[i] * (2 * kU32 + roundoff) * (1 + 2 * roundoff);
  }
  return w;
}

}  // namespace

Quantised affine_weights(const Tensor& words, const Tensor& scale, const Tensor& zero,
                         std::size_t group, double roundoff) {
  return weights(
      words, group,
      [&](std::uint32_t code, std::size_t at, double& value, double& error, double& size) {
        if (at >= scale.values.size()) return;
        value = (static_cast<double>(code) - zero.values[at]) * scale.values[at];
        error = std::abs(value) * (2 * kU32 + roundoff) * (1 + 2 * roundoff);
        size = (static_cast<double>(code) + std::abs(zero.values[at])) * std::abs(scale.values[at]);
      });
}

Quantised nf4_weights(const Tensor& words, const Tensor& scale, std::size_t group,
                      double roundoff) {
  return weights(
      words, group,
      [&](std::uint32_t code, std::size_t at, double& value, double& error, double& size) {
        if (at >= scale.values.size()) return;
        value = kNf4[code] * scale.values[at];
        error = std::abs(value) * (2 * kU32 + roundoff) * (1 + 2 * roundoff);
        size = std::abs(value);
      });
}

Quantised int8_weights(const Tensor& bytes, const Tensor& scale, std::size_t group,
                       double roundoff) {
  return scaled_rows(bytes, group, roundoff, [&](std::size_t at) { return scale.values[at]; });
}

Quantised mxfp8_weights(const Tensor& bytes, const Tensor& exponent, std::size_t group,
                        double roundoff) {
  return scaled_rows(bytes, group, roundoff,
                     [&](std::size_t at) { return power_of(exponent.values[at]); });
}

Quantised nvfp8_weights(const Tensor& bytes, const Tensor& scale8, const Tensor& global,
                        std::size_t group, double roundoff) {
  return scaled_rows(bytes, group, roundoff,
                     [&](std::size_t at) { return e4m3(scale8.values[at]) * global.values[0]; });
}

Quantised mxfp4_weights(const Tensor& words, const Tensor& exponent, std::size_t group,
                        double roundoff) {
  return weights(
      words, group,
      [&](std::uint32_t code, std::size_t at, double& value, double& error, double& size) {
        if (at >= exponent.values.size()) return;
        value = e2m1(code) * power_of(exponent.values[at]);
        size = std::abs(value);
        error = size * roundoff * (1 + 2 * roundoff);
      });
}

Quantised nvfp4_weights(const Tensor& words, const Tensor& scale8, const Tensor& global,
                        std::size_t group, double roundoff) {
  return weights(
      words, group,
      [&](std::uint32_t code, std::size_t at, double& value, double& error, double& size) {
        if (at >= scale8.values.size()) return;
        value = e2m1(code) * e4m3(scale8.values[at]) * global.values[0];
        size = std::abs(value);
        error = size * (2 * kU32 + roundoff) * (1 + 2 * roundoff);
      });
}

Expected quantised_matmul(const Tensor& x, const Quantised& w,
                          const std::vector<std::size_t>& begin) {
  const Matrix left = to_matrix(x);
  const Matrix right = first_rows(w.value, left.shape(1));
  const Matrix off = first_rows(w.error, left.shape(1));
  const Matrix size = first_rows(w.size, left.shape(1));
  Expected parts{{{begin.size() - 1, left.shape(0), right.shape(1)}, {}}, {{}, {}}};
  for (std::size_t s = 0; s + 1 < begin.size(); ++s) {
    const Matrix columns = xt::view(left, xt::all(), xt::range(begin[s], begin[s + 1]));
    const auto of_run = [&](const Matrix& m) {
      return Matrix(xt::view(m, xt::range(begin[s], begin[s + 1]), xt::all()));
    };
    const Matrix value = product(columns, of_run(right));
    const Matrix sizes = xt::abs(columns);
    const Matrix most = of_run(size) + of_run(off);
    // A sum of products, one of rows of x, and for each group of rows a few roundings more.
    const auto terms = static_cast<double>(begin[s + 1] - begin[s]);
    const Matrix error =
        product_error(sizes, most) * ((2 * terms + 8) / (terms + 1)) + product(sizes, of_run(off));
    const Tensor of_part = to_tensor(value);
    const Tensor part_error = to_tensor(error);
    parts.value.values.insert(parts.value.values.end(), of_part.values.begin(),
                              of_part.values.end());
    parts.error.values.insert(parts.error.values.end(), part_error.values.begin(),
                              part_error.values.end());
  }
  if (begin.size() == 2) parts.value.shape = {left.shape(0), right.shape(1)};
  parts.error.shape = parts.value.shape;
  return parts;
}

}  // namespace tessera::reference
