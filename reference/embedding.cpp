#include "reference/embedding.hpp"

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

}  // namespace tessera::reference
