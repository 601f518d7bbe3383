// Oracles of recurrences over time, step by step: linear_recurrence, selective_scan, wkv and
// linear_attention.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

/// h[t] = a[t] h[t - 1] + b[t] of each column, from h0; a and b (batch, len, d), h0 (batch, 1, d).
/// `reverse`: from the last step to the first. Gives h, and the state at the end.
std::vector<Expected> linear_recurrence(const Tensor& a, const Tensor& b, const Tensor& h0,
                                        bool reverse);

struct ComplexTensor {
  const Tensor& re;
  const Tensor& im;
};
/// The same of complex numbers. Gives h's real and imaginary part, and those of the state at the
/// end.
std::vector<Expected> complex_recurrence(const ComplexTensor& a, const ComplexTensor& b,
                                         const ComplexTensor& h0, bool reverse);

/// h[t, n] = exp(delta[t] a[n]) h[t - 1, n] + delta[t] b[t, n] x[t] and y[t] = sum_n c[t, n] h[t,
/// n]
/// + skip x[t] of each column; x and delta (batch, len, d), a (states, d), b and c (batch, len,
/// states), skip (1, d).
struct ScanInputs {
  const Tensor& x;
  const Tensor& delta;
  const Tensor& a;
  const Tensor& b;
  const Tensor& c;
  const Tensor& skip;
  bool reverse = false;   ///< from the last step to the first
  std::size_t block = 0;  ///< steps of a block
};
/// Gives y, h at the end (batch, states, d), which starts at h0 if there is one, and h as each
/// block of steps finds it (batch, blocks, states, d).
std::vector<Expected> selective_scan(const ScanInputs& in, const Tensor* h0);
/// What its gradients take beside it: h as each block of steps finds it, the gradient of y, that of
/// h at the end (none: 0), and how many columns a part of db and dc sums.
struct ScanGradInputs {
  const Tensor& starts;
  const Tensor& dy;
  const Tensor* dlast = nullptr;
  std::size_t columns = 1;
};
/// Its gradients by x, delta, a (batch, states, d), b and c (parts, batch, len, states), skip
/// (batch, 1, d) and h0 (batch, states, d).
std::vector<Expected> selective_scan_grad(const ScanInputs& in, const ScanGradInputs& given);

/// RWKV-4's weighted means of each column: k and v (len, batch, d), w and u (1, d). `s0` and the
/// second result, (3, batch, d), are sums of what came before with v and without, times e^-p, and
/// p; the first is of nothing without s0.
std::vector<Expected> wkv(const Tensor& k, const Tensor& v, const Tensor& w, const Tensor& u,
                          const Tensor* s0);

/// What a state forgets from step to step: nothing unless one of the first two is given.
struct Gates {
  std::vector<double> of_heads;      ///< logarithm of a factor of each head
  const Tensor* of_steps = nullptr;  ///< of each step and column of k (batch, heads, len, dk)
  const Tensor* state = nullptr;     ///< to start from, (batch, heads, dv, dk); else 0
  const Tensor* bonus = nullptr;     ///< (heads, 1, dk): RWKV-6's, of a step's own term
  double roundoff = kU32;            ///< of the factors of products
};
/// S = diag(exp(g)) S + k^T v, o = q S / sqrt(dk), step by step; with a bonus o is of the state
/// before the step and of diag(bonus) k^T v. q and k (batch, heads, len, dk), v (.., dv). Gives o,
/// and S at the end, transposed.
std::vector<Expected> linear_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const Gates& gates);

/// The gradient of linear_attention by q, from that of o.
Expected linear_attention_dq(const Tensor& k, const Tensor& v, const Tensor& dout,
                             const Gates& gates);
/// What the gradients by k, v, g and s0 take beside it.
struct LinearGradInputs {
  const Tensor* dq = nullptr;   ///< the gradient by q; for that by g
  const Tensor* end = nullptr;  ///< the state at the end; for that by g, with ds
  const Tensor* ds = nullptr;   ///< the gradient of the state at the end; none: 0
};
/// The gradients by k, v, g (none without dq: zeros), a constant in place of g's rows and columns
/// (batch, heads, 1, 1), the bonus (batch, heads, 1, dk) and s0. Of g: the running sum from the end
/// of q dq - k dk, and of the products of the state at the end and its gradient.
std::vector<Expected> linear_attention_dkv(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const Tensor& dout, const Gates& gates,
                                           const LinearGradInputs& given);

}  // namespace tessera::reference
