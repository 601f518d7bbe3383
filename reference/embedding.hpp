// Oracles of embedding_rows: rows of a table by their numbers, as they are or their means, and the
// gradient by the table.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

/// table (n, 1, d), the result (m, 1, d). Without `starts` a row for each id; else row i is the
/// mean of the rows named by ids starts[i] to starts[i + 1] - 1, 0 of none, or with `weights` of
/// ids the sum by them.
Expected embedding_rows(const Tensor& table, const std::vector<int>& ids,
                        const std::vector<int>& starts, const std::vector<double>& weights);
/// The gradient of that by the table, (n, 1, d), from dy (m, 1, d): each id adds its row of dy, by
/// its weight or its part of the mean, to the row that it names.
Expected embedding_rows_grad(const Tensor& dy, const std::vector<int>& ids,
                             const std::vector<int>& starts, const std::vector<double>& weights,
                             std::size_t n);

}  // namespace tessera::reference
