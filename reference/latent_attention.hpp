// Oracle of multi-head latent attention: keys and values are made whole, token by token.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

struct Latent {
  const Tensor* wk;          ///< (heads, rank, n), with wv; null: absorbed
  const Tensor* wv;          ///< (heads, rank, n)
  std::vector<int> table;    ///< pages of each sequence, in its order
  std::vector<int> lengths;  ///< keys of each sequence
  int q_len;                 ///< queries of each, its last tokens
  bool causal;
  bool in_bf16;  ///< the kernel rounds keys, values and p to bf16 before they are factors
};

/// softmax((q k^T + qr kr^T) / sqrt(3 rope)) v. c (pages, page, rank), kr (pages, page, rope). With
/// projections: q (batch, heads, q_len, n), k = c wk, v = c wv. Absorbed: q (batch, 1, q_len heads,
/// rank), query by query, k = v = c.
Expected latent_attention(const Tensor& q, const Tensor& qr, const Tensor& c, const Tensor& kr,
                          const Latent& latent);

}  // namespace tessera::reference
