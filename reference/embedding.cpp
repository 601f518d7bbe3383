#include "reference/embedding.hpp"

#include <cmath>

#include "reference/xtensor_view.hpp"

namespace tessera::reference {

Expected embedding_rows(const Tensor& table, const std::vector<int>& ids,
                        const std::vector<int>& starts, const std::vector<double>& weights) {
  using Vector = xt::xtensor<double, 1>;
  Tensor flat = table;
  flat.shape = {table.shape[0], table.shape[2]};
  const Matrix rows = to_matrix(flat);
  const bool pooled = !starts.empty();
  const std::size_t m = pooled ? starts.size() - 1 : ids.size();
  Matrix value = xt::zeros<double>({m, rows.shape(1)});
  Matrix error = xt::zeros<double>({m, rows.shape(1)});
  for (std::size_t i = 0; i < m; ++i) {
    if (!pooled) {
      xt::view(value, i) = xt::view(rows, static_cast<std::size_t>(ids[i]));
      continue;
    }
    const auto first = static_cast<std::size_t>(starts[i]);
    const auto end = static_cast<std::size_t>(starts[i + 1]);
    if (first == end) continue;
    const auto count = static_cast<double>(end - first);
    Vector sum = xt::zeros<double>({rows.shape(1)});
    Vector size = sum;
    for (std::size_t t = first; t < end; ++t) {
      Vector row = xt::view(rows, static_cast<std::size_t>(ids[t]));
      if (!weights.empty()) row *= weights[t];
      sum += row;
      size += xt::abs(row);
    }
    const double divided = weights.empty() ? count : 1;
    xt::view(value, i) = sum / divided;
    // Sums in any order, and a quotient or products.
    xt::view(error, i) = kU32 * (count + 1) * (1 + kU32 * count) * size / divided;
  }
  Expected e{to_tensor(value), to_tensor(error)};
  e.value.shape = e.error.shape = {m, 1, rows.shape(1)};
  return e;
}

Expected embedding_rows_grad(const Tensor& dy, const std::vector<int>& ids,
                             const std::vector<int>& starts, const std::vector<double>& weights,
                             std::size_t n) {
  const std::size_t d = dy.shape[2];
  Expected table{{{n, 1, d}, std::vector<double>(n * d)}, {}};
  table.error = table.value;
  std::vector<double> terms(n);
  const auto add = [&](std::size_t t, std::size_t row, double weight) {
    const auto id = static_cast<std::size_t>(ids[t]);
    ++terms[id];
    for (std::size_t j = 0; j < d; ++j) {
      table.value.values[id * d + j] += weight * dy.values[row * d + j];
      table.error.values[id * d + j] += std::abs(weight * dy.values[row * d + j]);
    }
  };
  for (std::size_t row = 0; row < dy.shape[0]; ++row) {
    if (starts.empty()) {
      add(row, row, 1);
      continue;
    }
    const auto end = static_cast<std::size_t>(starts[row + 1]);
    for (auto t = static_cast<std::size_t>(starts[row]); t < end; ++t)
      add(t, row, weights.empty() ? 1. / (starts[row + 1] - starts[row]) : weights[t]);
  }
  // A part of a mean is rounded, and so are products; sums in any order.
  for (std::size_t i = 0; i < n * d; ++i) table.error.values[i] *= kU32 * (terms[i / d] + 3);
  return table;
}

}  // namespace tessera::reference
