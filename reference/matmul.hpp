// Oracles of matmul, matmul_relu, its gradients, grouped_matmul, tgmm, split_matmul and split_sum.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

/// x (m, k) @ y (k, n).
Expected matmul(const Tensor& x, const Tensor& y);
/// max(x @ w, 0).
Expected matmul_relu(const Tensor& x, const Tensor& w);
/// (dy where y > 0, else 0) @ w^T: dy, y (m, n), w (k, n).
Expected grad_x(const Tensor& dy, const Tensor& y, const Tensor& w);
/// x^T @ (dy where y > 0, else 0): x (m, k), dy, y (m, n).
Expected grad_w(const Tensor& x, const Tensor& dy, const Tensor& y);
/// What is there already: nothing, an array whose rows of no group stay, or one that is added to.
struct Existing {
  const Tensor* array = nullptr;
  bool added = false;
};
struct AfterProduct;  // reference/rows.hpp
/// Rows [offsets[g], offsets[g + 1]) of x (m, k) times w[g], w (groups, k, n), and what becomes of
/// them: its v and bias are of groups too, (groups, k, n) and (groups, 1, n).
Expected grouped_matmul(const Tensor& x, const Tensor& w, const std::vector<int>& offsets,
                        Existing existing, const AfterProduct* after = nullptr);
/// Rows [offsets[g], offsets[g + 1]) of x (m, k), transposed, times those of y (m, n), added to
/// `existing` (groups, k, n) if there is one.
Expected tgmm(const Tensor& x, const Tensor& y, const std::vector<int>& offsets,
              const Tensor* existing);
/// Columns [begin[s], begin[s + 1]) of x (m, k) times as many rows of y (k, n): parts (runs, m, n).
Expected split_matmul(const Tensor& x, const Tensor& y, const std::vector<int>& begin);
/// The sum over s of part[s], parts (parts, m, n).
Expected split_sum(const Tensor& parts);

}  // namespace tessera::reference
