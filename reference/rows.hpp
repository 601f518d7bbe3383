// Oracles of the kernels with row statistics: softmax_rows and matmul_layernorm_gelu.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

/// exp(x - max) / sum exp(x - max) of each row of x (m, n).
Expected softmax(const Tensor& x);
/// gelu(layer_norm(x @ w) gamma + beta): x (m, k), w (k, n), gamma and beta (1, n).
Expected matmul_layernorm_gelu(const Tensor& x, const Tensor& w, const Tensor& gamma,
                               const Tensor& beta, double eps);

}  // namespace tessera::reference
