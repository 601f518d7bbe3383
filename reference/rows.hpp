// Oracles of the kernels with row statistics, and of their gradients.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

/// exp(x - max) / sum exp(x - max) of each row of x (m, n).
Expected softmax(const Tensor& x);
/// Of softmax, by its output y: y (dy - sum dy y).
Expected softmax_grad(const Tensor& dy, const Tensor& y);
/// gelu(layer_norm(x @ w) gamma + beta): x (m, k), w (k, n), gamma and beta (1, n).
Expected matmul_layernorm_gelu(const Tensor& x, const Tensor& w, const Tensor& gamma,
                               const Tensor& beta, double eps);

/// What becomes of a product x @ w: + bias (1, n), the layer norm by gamma and beta (1, n), then
/// the activation; kSwiglu: z logistic(z) (x @ v), v (k, n). nullptr: not there.
enum class Activation { kNone, kGelu, kGeluTanh, kSwiglu, kRelu };
struct AfterProduct {
  Activation activation = Activation::kNone;
  const Tensor* v = nullptr;
  const Tensor* bias = nullptr;
  const Tensor* gamma = nullptr;
  const Tensor* beta = nullptr;
  double eps = 0;
};
Expected matmul_epilogue(const Tensor& x, const Tensor& w, const AfterProduct& after);

/// What normalises rows beside gamma. Without beta it is an RMS norm: no mean is taken off.
struct Norm {
  const Tensor& gamma;
  const Tensor* beta = nullptr;
  const Tensor* residual = nullptr;
  double eps = 0;
  bool rms() const { return beta == nullptr; }
};
/// y, and with a residual the sum h that was normalised.
std::vector<Expected> norm_rows(const Tensor& x, const Norm& norm);
/// dh, then dgamma and, unless rms, dbeta, each (parts, 1, n): sums of so many rows after one
/// another.
std::vector<Expected> norm_rows_grad(const Tensor& dy, const Tensor& h, const Tensor& gamma,
                                     const Tensor* dh_out, double eps, bool rms,
                                     const std::vector<std::size_t>& part_rows);
/// x (batch, heads, len, 2 half) with column a and a + half turned by the angle of its position,
/// whose cosines and sines are (len, half); `back`: by the opposite angle.
Expected rope(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool back);
/// log sum exp of each row of x @ w less the logit of its label (0: no column is), and the
/// former, both (m, 1).
std::vector<Expected> cross_entropy(const Tensor& x, const Tensor& w,
                                    const std::vector<int>& labels);
/// KL(softmax(t) || softmax(s)) of each row of s = x @ w and t = teacher_x @ teacher_w, then log
/// sum exp of s and of t, all (m, 1).
std::vector<Expected> kl_divergence(const Tensor& x, const Tensor& w, const Tensor& teacher_x,
                                    const Tensor& teacher_w);
/// Of that, times dloss of each row, by x and by w, from both log sum exps; as below.
std::vector<Expected> kl_divergence_grad(const Tensor& x, const Tensor& w, const Tensor& teacher_x,
                                         const Tensor& teacher_w, const Tensor& lse,
                                         const Tensor& teacher_lse, const Tensor& dloss,
                                         double roundoff);
/// Of cross_entropy's loss, times dloss of each row, by x and by w, from its log sum exp: lse and
/// dloss (m, 1). `roundoff`: of what exps, less the labels', are rounded to.
std::vector<Expected> cross_entropy_grad(const Tensor& x, const Tensor& w,
                                         const std::vector<int>& labels, const Tensor& lse,
                                         const Tensor& dloss, double roundoff);

}  // namespace tessera::reference
