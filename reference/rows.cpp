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

Expected softmax_grad(const Tensor& dy, const Tensor& y) {
  const Matrix g = to_matrix(dy);
  const Matrix p = to_matrix(y);
  Matrix value = xt::zeros_like(g);
  Matrix error = xt::zeros_like(g);
  const std::size_t n = g.shape(1);
  for (std::size_t i = 0; i < g.shape(0); ++i) {
    double sum = 0;
    double size = 0;
    for (std::size_t j = 0; j < n; ++j) {
      sum += g(i, j) * p(i, j);
      size += std::abs(g(i, j) * p(i, j));
    }
    const double sum_error = (sum_roundings(n) + 1) * kU32 * size;
    for (std::size_t j = 0; j < n; ++j) {
      value(i, j) = p(i, j) * (g(i, j) - sum);
      error(i, j) = std::abs(p(i, j)) * (sum_error + 3 * kU32 * std::abs(g(i, j) - sum)) + kTiny;
    }
  }
  return {to_tensor(value), to_tensor(error)};
}

namespace {
using Row = std::vector<double>;
Row row_of(const Matrix& m, std::size_t i) {
  return {m.data() + i * m.shape(1), m.data() + (i + 1) * m.shape(1)};
}

/// z = (h - mean of h) / sqrt(mean square + eps), and what f32 is off by. RMS: the mean counts as
/// 0.
struct Normed {
  Row z;
  Row error;
  double scale = 0;
  double scale_error = 0;
};
Normed normed(const Row& h, const Row& h_error, double eps, bool rms) {
  const std::size_t n = h.size();
  const auto count = static_cast<double>(n);
  double mean = 0;
  double mean_error = 0;
  for (std::size_t j = 0; !rms && j < n; ++j) {
    mean += h[j] / count;
    mean_error += (h_error[j] + (sum_roundings(n) + 2) * kU32 * std::abs(h[j])) / count;
  }
  double variance = 0;
  double variance_error = 0;
  Row centred(n);
  Row centred_error(n);
  for (std::size_t j = 0; j < n; ++j) {
    const double c = h[j] - mean;
    const double d = h_error[j] + mean_error + kU32 * std::abs(c);
    centred[j] = c;
    centred_error[j] = d;
    variance += c * c / count;
    variance_error += (2 * std::abs(c) * d + d * d + (sum_roundings(n) + 3) * kU32 * c * c) / count;
  }
  Normed r{Row(n), Row(n), 1 / std::sqrt(variance + eps)};
  // d(v^-1/2) <= v^-3/2 / 2 at the smaller end; a row whose variance is all error keeps eps.
  const double low = std::max(variance - variance_error, 0.) + eps * (1 - 2 * kU32);
  r.scale_error = 0.5 * (variance_error + eps * kU32) / (low * std::sqrt(low)) + 3 * kU32 * r.scale;
  for (std::size_t j = 0; j < n; ++j) {
    r.z[j] = centred[j] * r.scale;
    r.error[j] = centred_error[j] * (r.scale + r.scale_error) +
                 std::abs(centred[j]) * r.scale_error + 2 * kU32 * std::abs(r.z[j]);
  }
  return r;
}
}  // namespace

namespace {
/// f(z), and what f32 is off by where z is off by z_error.
struct Activated {
  double value;
  double error;
};
Activated activated(Activation activation, double z, double z_error) {
  switch (activation) {
    case Activation::kNone:
    case Activation::kSwiglu:
      return {z, z_error};
    case Activation::kRelu:
      return {std::max(z, 0.), z_error};
    case Activation::kGelu:
      // |gelu'| <= 1.13; the rest is the rounding of its own five operations and of 1 / sqrt 2.
      return {z * 0.5 * (1 + std::erf(z / std::sqrt(2.))),
              1.13 * z_error + 8 * kU32 * std::abs(z) + kTiny};
    case Activation::kGeluTanh: {
      // Likewise; tanh's argument u is off by 7 roundings of it, and |u| sech^2 u <= 0.45.
      const double u = std::sqrt(2 / std::acos(-1.)) * (z + 0.044715 * z * z * z);
      return {z * 0.5 * (1 + std::tanh(u)), 1.13 * z_error + 8 * kU32 * std::abs(z) + kTiny};
    }
  }
  return {};
}
}  // namespace

Expected matmul_epilogue(const Tensor& x, const Tensor& w, const AfterProduct& after) {
  const Matrix a = to_matrix(x);
  Matrix h = product(a, to_matrix(w));
  Matrix h_error = product_error(a, to_matrix(w));
  Matrix value = xt::zeros_like(h);
  Matrix error = xt::zeros_like(h);
  for (std::size_t i = 0; i < h.shape(0); ++i) {
    for (std::size_t j = 0; after.bias != nullptr && j < h.shape(1); ++j) {
      h(i, j) += after.bias->values[j];
      h_error(i, j) += kU32 * (std::abs(h(i, j)) + h_error(i, j));
    }
    Row z = row_of(h, i);
    Row z_error = row_of(h_error, i);
    if (after.gamma != nullptr) {
      const Normed r = normed(z, z_error, after.eps, false);
      for (std::size_t j = 0; j < z.size(); ++j) {
        const double gamma = after.gamma->values[j];
        const double scaled = r.z[j] * gamma;
        z[j] = scaled + after.beta->values[j];
        z_error[j] = r.error[j] * std::abs(gamma) + kU32 * std::abs(scaled) + kU32 * std::abs(z[j]);
      }
    }
    for (std::size_t j = 0; j < z.size(); ++j) {
      const Activated o = activated(after.activation, z[j], z_error[j]);
      value(i, j) = o.value;
      error(i, j) = o.error;
    }
  }
  if (after.activation == Activation::kSwiglu) {
    const Matrix up = product(a, to_matrix(*after.v));
    const Matrix up_error = product_error(a, to_matrix(*after.v));
    for (std::size_t i = 0; i < h.shape(0); ++i) {
      for (std::size_t j = 0; j < h.shape(1); ++j) {
        // |(z logistic(z))'| <= 1.1; an exp, a sum and a quotient round. From z < -88 on the exp is
        // infinite, and the result 0.
        const double silu = value(i, j) / (1 + std::exp(-value(i, j)));
        const double silu_error = 1.1 * error(i, j) + 3 * kU32 * std::abs(silu) + 0x1p-119;
        value(i, j) = silu * up(i, j);
        error(i, j) = silu_error * (std::abs(up(i, j)) + up_error(i, j)) +
                      std::abs(silu) * up_error(i, j) + kU32 * std::abs(value(i, j)) + kTiny;
      }
    }
  }
  return {to_tensor(value), to_tensor(error)};
}

Expected matmul_layernorm_gelu(const Tensor& x, const Tensor& w, const Tensor& gamma,
                               const Tensor& beta, double eps) {
  return matmul_epilogue(x, w, {Activation::kGelu, nullptr, nullptr, &gamma, &beta, eps});
}

std::vector<Expected> norm_rows(const Tensor& x, const Norm& norm) {
  Matrix h = to_matrix(x);
  Matrix h_error = xt::zeros_like(h);
  if (norm.residual != nullptr) {
    h += to_matrix(*norm.residual);
    h_error = xt::abs(h) * kU32;
  }
  Matrix value = xt::zeros_like(h);
  Matrix error = xt::zeros_like(h);
  for (std::size_t i = 0; i < h.shape(0); ++i) {
    const Normed r = normed(row_of(h, i), row_of(h_error, i), norm.eps, norm.rms());
    for (std::size_t j = 0; j < h.shape(1); ++j) {
      const double gamma = norm.gamma.values[j];
      value(i, j) = r.z[j] * gamma + (norm.rms() ? 0 : norm.beta->values[j]);
      error(i, j) = r.error[j] * std::abs(gamma) + kU32 * std::abs(r.z[j] * gamma) +
                    kU32 * std::abs(value(i, j)) + kTiny;
    }
  }
  std::vector<Expected> results{{to_tensor(value), to_tensor(error)}};
  if (norm.residual != nullptr) results.push_back({to_tensor(h), to_tensor(h_error)});
  return results;
}

std::vector<Expected> norm_rows_grad(const Tensor& dy, const Tensor& h, const Tensor& gamma,
                                     const Tensor* dh_out, double eps, bool rms,
                                     const std::vector<std::size_t>& part_rows) {
  const Matrix in = to_matrix(h);
  const Matrix out = to_matrix(dy);
  const std::size_t n = in.shape(1);
  const auto count = static_cast<double>(n);
  const Row exact(n);
  Matrix dh = xt::zeros_like(in);
  Matrix dh_error = xt::zeros_like(in);
  Tensor dgamma{{part_rows.size(), 1, n}, Row(part_rows.size() * n)};
  Tensor dgamma_error = dgamma;
  Tensor dbeta = dgamma;
  Tensor dbeta_error = dgamma;
  std::size_t i = 0;
  for (std::size_t part = 0; part < part_rows.size(); ++part) {
    // Any order of the part's rows.
    const double roundings = static_cast<double>(part_rows[part]) + 1;
    for (const std::size_t end = i + part_rows[part]; i < end; ++i) {
      const Normed r = normed(row_of(in, i), exact, eps, rms);
      double along = 0;  // mean of g z
      double along_error = 0;
      double mean = 0;  // of g
      double mean_error = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const double g = out(i, j) * gamma.values[j];
        const double g_error = kU32 * std::abs(g);
        along += g * r.z[j] / count;
        along_error += (std::abs(g) * r.error[j] + g_error * (std::abs(r.z[j]) + r.error[j]) +
                        (sum_roundings(n) + 4) * kU32 * std::abs(g * r.z[j])) /
                       count;
        if (rms) continue;
        mean += g / count;
        mean_error += (g_error + (sum_roundings(n) + 3) * kU32 * std::abs(g)) / count;
      }
      for (std::size_t j = 0; j < n; ++j) {
        const double g = out(i, j) * gamma.values[j];
        const double inner = g - mean - r.z[j] * along;
        const double inner_error =
            mean_error + std::abs(r.z[j]) * along_error +
            (std::abs(along) + along_error) * r.error[j] +
            4 * kU32 * (std::abs(g) + std::abs(mean) + std::abs(r.z[j] * along));
        const double other = dh_out != nullptr ? dh_out->values[i * n + j] : 0;
        dh(i, j) = inner * r.scale + other;
        dh_error(i, j) = inner_error * (r.scale + r.scale_error) + std::abs(inner) * r.scale_error +
                         2 * kU32 * (std::abs(inner * r.scale) + std::abs(dh(i, j))) + kTiny;
        const std::size_t at = part * n + j;
        dgamma.values[at] += out(i, j) * r.z[j];
        dgamma_error.values[at] += std::abs(out(i, j)) * r.error[j] +
                                   roundings * kU32 * std::abs(out(i, j) * r.z[j]) + kTiny;
        dbeta.values[at] += out(i, j);
        dbeta_error.values[at] += roundings * kU32 * std::abs(out(i, j));
      }
    }
  }
  std::vector<Expected> results{{to_tensor(dh), to_tensor(dh_error)}, {dgamma, dgamma_error}};
  if (!rms) results.push_back({dbeta, dbeta_error});
  return results;
}

Expected rope(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool back) {
  Expected o{x, x};
  const std::size_t len = x.shape[2];
  const std::size_t half = x.shape[3] / 2;
  for (std::size_t row = 0; row < x.values.size() / (2 * half); ++row) {
    for (std::size_t a = 0; a < half; ++a) {
      const double cosine = cosines.values[row % len * half + a];
      const double sine = sines.values[row % len * half + a] * (back ? -1 : 1);
      const std::size_t first = row * 2 * half + a;
      const std::size_t second = first + half;
      const double u = x.values[first];
      const double v = x.values[second];
      o.value.values[first] = u * cosine - v * sine;
      o.value.values[second] = v * cosine + u * sine;
      o.error.values[first] = 2 * kU32 * (std::abs(u * cosine) + std::abs(v * sine)) + kTiny;
      o.error.values[second] = 2 * kU32 * (std::abs(v * cosine) + std::abs(u * sine)) + kTiny;
    }
  }
  return o;
}

namespace {
/// log sum exp of a row of logits, with their errors.
struct LogSum {
  double value = 0;
  double error = 0;
  double drift = 0;  ///< relative, of each exp less the maximum, and of their sum
};
LogSum log_sum_exp(const Row& s, const Row& e) {
  const double top = *std::max_element(s.begin(), s.end());
  const double range = top - *std::min_element(s.begin(), s.end());
  double sum = 0;
  for (const double v : s) sum += std::exp(v - top);
  const double all = top + std::log(sum);
  // The log of a sum of exps is off by no more than any term's exponent; terms are rescaled as the
  // maximum rises, by factors whose exponents add up to the range at most. Any order of them.
  const double worst = *std::max_element(e.begin(), e.end());
  const double drift =
      worst + kU32 * (static_cast<double>(s.size()) + 16 + 3 * (range + 2 * worst));
  return {all, drift + 2 * kU32 * (std::abs(top) + std::log(sum) + std::abs(all)) + kTiny, drift};
}

/// ds @ w^T and x^T @ ds, where ds is off by `off`.
std::vector<Expected> products_of(const Matrix& rows, const Matrix& columns, const Matrix& ds,
                                  const Matrix& off) {
  const Matrix columns_turned = xt::transpose(columns);
  const Matrix rows_turned = xt::transpose(rows);
  const Matrix most = xt::abs(ds) + off;
  // What factors are off by, then the roundings of sums of products.
  const Matrix by_x = product(off, xt::abs(columns_turned)) + product_error(most, columns_turned);
  const Matrix by_w = product(xt::abs(rows_turned), off) + product_error(rows_turned, most);
  return {{to_tensor(product(ds, columns_turned)), to_tensor(by_x)},
          {to_tensor(product(rows_turned, ds)), to_tensor(by_w)}};
}

/// exp of a logit less its row's log sum exp, and what f32 is off by.
struct Share {
  double value;
  double error;
};
Share share_of(double logit, double logit_error, double lse) {
  const double exponent = logit - lse;
  const double p = std::exp(exponent);
  return {p, p * (std::expm1(logit_error + kU32 * std::abs(exponent)) + 2 * kU32)};
}
}  // namespace

std::vector<Expected> cross_entropy(const Tensor& x, const Tensor& w,
                                    const std::vector<int>& labels) {
  const Matrix logits = product(to_matrix(x), to_matrix(w));
  const Matrix logits_error = product_error(to_matrix(x), to_matrix(w));
  const std::size_t m = logits.shape(0);
  const std::size_t n = logits.shape(1);
  const Tensor empty{{m, 1}, Row(m)};
  Expected loss{empty, empty};
  Expected lse{empty, empty};
  for (std::size_t i = 0; i < m; ++i) {
    const Row s = row_of(logits, i);
    const Row e = row_of(logits_error, i);
    const LogSum all = log_sum_exp(s, e);
    lse.value.values[i] = all.value;
    lse.error.values[i] = all.error;
    if (labels[i] < 0 || static_cast<std::size_t>(labels[i]) >= n) continue;
    const auto label = static_cast<std::size_t>(labels[i]);
    loss.value.values[i] = all.value - s[label];
    loss.error.values[i] = all.error + e[label] + 2 * kU32 * std::abs(all.value - s[label]);
  }
  return {loss, lse};
}

std::vector<Expected> kl_divergence(const Tensor& x, const Tensor& w, const Tensor& teacher_x,
                                    const Tensor& teacher_w) {
  const Matrix logits = product(to_matrix(x), to_matrix(w));
  const Matrix logits_error = product_error(to_matrix(x), to_matrix(w));
  const Matrix taught = product(to_matrix(teacher_x), to_matrix(teacher_w));
  const Matrix taught_error = product_error(to_matrix(teacher_x), to_matrix(teacher_w));
  const std::size_t m = logits.shape(0);
  const std::size_t n = logits.shape(1);
  const Tensor empty{{m, 1}, Row(m)};
  Expected loss{empty, empty};
  Expected lse{empty, empty};
  Expected teacher_lse{empty, empty};
  for (std::size_t i = 0; i < m; ++i) {
    const LogSum student = log_sum_exp(row_of(logits, i), row_of(logits_error, i));
    const LogSum teacher = log_sum_exp(row_of(taught, i), row_of(taught_error, i));
    lse.value.values[i] = student.value;
    lse.error.values[i] = student.error;
    teacher_lse.value.values[i] = teacher.value;
    teacher_lse.error.values[i] = teacher.error;
    // Weights are quotients of exps and their sum, each off by the drift.
    const double weight_off = std::expm1(2 * teacher.drift) +
                              kU32 * (static_cast<double>(n) + 4);  // and a sum of products
    double sum = 0;
    double sum_error = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const double p = std::exp(taught(i, j) - teacher.value);
      const double apart = taught(i, j) - logits(i, j);
      const double apart_error = taught_error(i, j) + logits_error(i, j) + kU32 * std::abs(apart);
      sum += p * apart;
      sum_error += p * (apart_error * (1 + weight_off) + weight_off * std::abs(apart));
    }
    loss.value.values[i] = sum + (student.value - teacher.value);
    loss.error.values[i] =
        sum_error + student.error + teacher.error +
        3 * kU32 * (std::abs(sum) + sum_error + std::abs(student.value - teacher.value)) + kTiny;
  }
  return {loss, lse, teacher_lse};
}

std::vector<Expected> kl_divergence_grad(const Tensor& x, const Tensor& w, const Tensor& teacher_x,
                                         const Tensor& teacher_w, const Tensor& lse,
                                         const Tensor& teacher_lse, const Tensor& dloss,
                                         double roundoff) {
  const Matrix rows = to_matrix(x);
  const Matrix columns = to_matrix(w);
  const Matrix logits = product(rows, columns);
  const Matrix logits_error = product_error(rows, columns);
  const Matrix taught = product(to_matrix(teacher_x), to_matrix(teacher_w));
  const Matrix taught_error = product_error(to_matrix(teacher_x), to_matrix(teacher_w));
  Matrix ds = xt::zeros_like(logits);
  Matrix off = xt::zeros_like(logits);
  for (std::size_t i = 0; i < logits.shape(0); ++i) {
    const double by = dloss.values[i];
    for (std::size_t j = 0; j < logits.shape(1); ++j) {
      const Share own = share_of(logits(i, j), logits_error(i, j), lse.values[i]);
      const Share teacher = share_of(taught(i, j), taught_error(i, j), teacher_lse.values[i]);
      const double error = (own.error + teacher.error) * std::abs(by);
      ds(i, j) = (own.value - teacher.value) * by;
      off(i, j) = error + (roundoff + 3 * kU32) * (std::abs(ds(i, j)) + error);
    }
  }
  return products_of(rows, columns, ds, off);
}

std::vector<Expected> cross_entropy_grad(const Tensor& x, const Tensor& w,
                                         const std::vector<int>& labels, const Tensor& lse,
                                         const Tensor& dloss, double roundoff) {
  const Matrix rows = to_matrix(x);
  const Matrix columns = to_matrix(w);
  const Matrix logits = product(rows, columns);
  const Matrix logits_error = product_error(rows, columns);
  Matrix ds = xt::zeros_like(logits);
  Matrix off = xt::zeros_like(logits);
  for (std::size_t i = 0; i < logits.shape(0); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    if (labels[i] < 0 || label >= logits.shape(1)) continue;
    for (std::size_t j = 0; j < logits.shape(1); ++j) {
      const Share p = share_of(logits(i, j), logits_error(i, j), lse.values[i]);
      const double error = p.error * std::abs(dloss.values[i]);
      ds(i, j) = (j == label ? p.value - 1 : p.value) * dloss.values[i];
      off(i, j) = error + (roundoff + 3 * kU32) * (std::abs(ds(i, j)) + error);
    }
  }
  return products_of(rows, columns, ds, off);
}

}  // namespace tessera::reference
