#include "reference/collectives.hpp"

#include <cmath>

#include "reference/xtensor_view.hpp"

namespace tessera::reference {

namespace {

/// Shard `i` of `n`, along the rows.
Matrix shard(const Matrix& x, std::size_t i, std::size_t n) {
  const std::size_t rows = x.shape(0) / n;
  return xt::view(x, xt::range(i * rows, (i + 1) * rows), xt::all());
}

double gamma(double n, double unit) { return n * unit / (1 - n * unit); }

Expected times(const Tensor& t, int n) {
  Tensor value = t;
  value.values.clear();
  for (int i = 0; i < n; ++i) {
    value.values.insert(value.values.end(), t.values.begin(), t.values.end());
  }
  value.shape[0] *= static_cast<std::size_t>(n);
  Tensor error = value;
  for (double& e : error.values) e = 0;
  return {value, error};
}

}  // namespace

Expected all_gather(const Tensor& x, int devices) { return times(x, devices); }

Expected reduce_scatter(const Tensor& x, int devices, double unit) {
  const auto n = static_cast<std::size_t>(devices);
  const Matrix all = to_matrix(x);
  Matrix value = shard(all, 0, n);
  Matrix sizes = xt::abs(value);
  for (std::size_t d = 1; d < n; ++d) {
    value += shard(all, d, n);
    sizes += xt::abs(shard(all, d, n));
  }
  const Matrix error = gamma(devices, unit) * sizes;
  return {to_tensor(value), to_tensor(error)};
}

Expected all_reduce(const Tensor& x, int devices, double unit) {
  const Expected once = reduce_scatter(x, devices, unit);
  return {times(once.value, devices).value, times(once.error, devices).value};
}

Expected all_to_all(const Tensor& x, int devices, const std::vector<int>& counts, int limit) {
  const auto n = static_cast<std::size_t>(devices);
  const Matrix all = to_matrix(x);
  const std::size_t rows = all.shape(0) / n;
  const auto most = static_cast<std::size_t>(limit);
  Matrix value = xt::zeros<double>({n * most, all.shape(1)});
  std::vector<std::size_t> filled(n, 0);
  for (std::size_t s = 0; s < n; ++s) {
    std::size_t from = s * rows;
    for (std::size_t d = 0; d < n; ++d) {
      for (int i = 0; i < counts[s * n + d]; ++i) {
        xt::view(value, d * most + filled[d]++) = xt::view(all, from++);
      }
    }
  }
  const Matrix error = xt::zeros<double>({value.shape(0), value.shape(1)});
  return {to_tensor(value), to_tensor(error)};
}

Expected all_gather_matmul(const Tensor& x, const Tensor& w, int devices) {
  const auto n = static_cast<std::size_t>(devices);
  const Matrix gathered = to_matrix(x);
  const Matrix weights = to_matrix(w);
  const std::size_t rows = gathered.shape(0);
  Matrix value = xt::zeros<double>({n * rows, weights.shape(1)});
  Matrix error = value;
  for (std::size_t d = 0; d < n; ++d) {
    const Matrix weight = shard(weights, d, n);
    xt::view(value, xt::range(d * rows, (d + 1) * rows)) = product(gathered, weight);
    xt::view(error, xt::range(d * rows, (d + 1) * rows)) = product_error(gathered, weight);
  }
  return {to_tensor(value), to_tensor(error)};
}

Expected matmul_reduce_scatter(const Tensor& x, const Tensor& w, int devices) {
  const auto n = static_cast<std::size_t>(devices);
  const Matrix parts = to_matrix(x);
  const Matrix weights = to_matrix(w);
  const std::size_t rows = parts.shape(0) / n;  // of one device: n parts
  Matrix value = xt::zeros<double>({rows, weights.shape(1)});
  Matrix error = value;
  // A chain of k terms on each device, then n terms.
  const double k = static_cast<double>(weights.shape(0)) / devices;
  const double growth = gamma(k + 1 + devices, kU32) / gamma(k + 1, kU32);
  for (std::size_t d = 0; d < n; ++d) {
    const Matrix mine = shard(parts, d, n);
    const Matrix weight = shard(weights, d, n);
    value += product(mine, weight);
    error += growth * product_error(mine, weight);
  }
  return {to_tensor(value), to_tensor(error)};
}

Expected three_rows(const Tensor& x) {
  const Matrix all = to_matrix(x);
  Matrix value = xt::zeros<double>({all.shape(0), all.shape(1)});
  Matrix sizes = value;
  for (std::size_t i = 0; i < all.shape(0); ++i) {
    for (std::size_t r = i == 0 ? 0 : i - 1; r <= i + 1 && r < all.shape(0); ++r) {
      for (std::size_t j = 0; j < all.shape(1); ++j) {
        value(i, j) += all(r, j);
        sizes(i, j) += std::abs(all(r, j));
      }
    }
  }
  const Matrix error = gamma(2, kU32) * sizes;
  return {to_tensor(value), to_tensor(error)};
}

}  // namespace tessera::reference
