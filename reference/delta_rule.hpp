// Oracles of linear recurrences whose state is read before it is written, step by step.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

/// What a state forgets, from what it starts, and how another computation goes about it.
struct DeltaGates {
  const Tensor* decay = nullptr;  ///< logarithms of factors, of steps (.., len, 1) or keys (.., dk)
  const Tensor* state = nullptr;  ///< to start from, (batch, heads, dv, dk); else 0
  std::size_t chunk = 1;          ///< steps after which a state is rounded
  double roundoff = kU32;         ///< of the factors of products
};

/// S = (I - beta k^T k) diag(exp(g)) S + beta k^T v, o = q S / sqrt(dk); q and k (batch, heads,
/// len, dk), v (.., dv), beta (.., 1). Gives o, and S at the end, transposed.
std::vector<Expected> delta_rule(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& beta, const DeltaGates& gates);

/// S = (diag(exp(g)) + a^T b) S + k^T v, o = q S / sqrt(dk); a and b as k. `of_rates`: with -b for
/// b, and a b for a.
std::vector<Expected> rwkv7(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& a,
                            const Tensor& b, bool of_rates, const DeltaGates& gates);

}  // namespace tessera::reference
