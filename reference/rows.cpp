#include "reference/rows.hpp"

#include <cmath>

#include "reference/xtensor_view.hpp"

namespace tessera::reference {

namespace {
/// Roundings of a sum of n terms in any tree no deeper than a chain would be conservative by n; a
/// sum in several lanes is at least this good: n / 8 + 8 covers 8 lanes and more.
double sum_roundings(std::size_t n) { return static_cast<double>(n) / 8 + 8; }
constexpr double kTiny = 0x1p-140;  // a few of the smallest f32 subnormals
}  // namespace

Expected softmax(const Tensor& x) {
  const Matrix in = to_matrix(x);
  Matrix value = xt::zeros_like(in);
  Matrix error = xt::zeros_like(in);
  const std::size_t n = in.shape(1);
  for (std::size_t i = 0; i < in.shape(0); ++i) {
    const xt::xtensor<double, 1> row = xt::view(in, i);
    const double top = xt::amax(row)();
    const xt::xtensor<double, 1> shifted = row - top;
    const xt::xtensor<double, 1> e = xt::exp(shifted);
    const double sum = xt::sum(e)();
    xt::view(value, i) = e / sum;
    // exp turns the rounding of its argument into a relative error of |argument| u.
    const xt::xtensor<double, 1> drift = xt::abs(shifted);
    const double mean_drift = xt::sum(xt::xtensor<double, 1>(e * drift))() / sum;
    xt::view(error, i) = e / sum * kU32 * (drift + mean_drift + sum_roundings(n) + 4) + kTiny;
  }
  return {to_tensor(value), to_tensor(error)};
}

Expected matmul_layernorm_gelu(const Tensor& x, const Tensor& w, const Tensor& gamma,
                               const Tensor& beta, double eps) {
  const Matrix a = to_matrix(x);
  const Matrix b = to_matrix(w);
  const Matrix h = product(a, b);
  const Matrix h_error = product_error(a, b);
  Matrix value = xt::zeros_like(h);
  Matrix error = xt::zeros_like(h);
  const std::size_t n = h.shape(1);
  const auto count = static_cast<double>(n);
  for (std::size_t i = 0; i < h.shape(0); ++i) {
    double mean = 0;
    double mean_error = 0;
    for (std::size_t j = 0; j < n; ++j) {
      mean += h(i, j) / count;
      mean_error += (h_error(i, j) + (sum_roundings(n) + 2) * kU32 * std::abs(h(i, j))) / count;
    }
    double variance = 0;
    double variance_error = 0;
    std::vector<double> centred_error(n);
    for (std::size_t j = 0; j < n; ++j) {
      const double c = h(i, j) - mean;
      const double d = h_error(i, j) + mean_error + kU32 * std::abs(c);
      centred_error[j] = d;
      variance += c * c / count;
      variance_error +=
          (2 * std::abs(c) * d + d * d + (sum_roundings(n) + 3) * kU32 * c * c) / count;
    }
    const double inverse = 1 / std::sqrt(variance + eps);
    // d(v^-1/2) <= v^-3/2 / 2 at the smaller end; a row whose variance is all error keeps eps.
    const double low = std::max(variance - variance_error, 0.) + eps * (1 - 2 * kU32);
    const double inverse_error =
        0.5 * (variance_error + eps * kU32) / (low * std::sqrt(low)) + 3 * kU32 * inverse;
    for (std::size_t j = 0; j < n; ++j) {
      const double c = h(i, j) - mean;
      const double g = gamma.values[j];
      const double z = c * inverse * g + beta.values[j];
      const double scaled = std::abs(c * inverse * g);
      const double z_error = centred_error[j] * (inverse + inverse_error) * std::abs(g) +
                             std::abs(c * g) * inverse_error + 3 * kU32 * scaled +
                             kU32 * std::abs(z);
      value(i, j) = z * 0.5 * (1 + std::erf(z / std::sqrt(2.)));
      // |gelu'| <= 1.13; the rest is the rounding of its own five operations and of 1 / sqrt 2.
      error(i, j) = 1.13 * z_error + 8 * kU32 * std::abs(z) + kTiny;
    }
  }
  return {to_tensor(value), to_tensor(error)};
}

}  // namespace tessera::reference
