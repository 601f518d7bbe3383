// Oracle of flash_attention: the whole score matrix, masked, row by row.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

struct AttentionMask {
  bool causal = false;
  int window = 0;                      ///< 0: none
  double softcap = 0;                  ///< 0: none
  std::vector<int> kv_lengths;         ///< per batch entry
  std::vector<int> q_segments;         ///< batch x q_len, or empty
  std::vector<int> kv_segments;        ///< batch x kv_len, or empty
  bool probabilities_in_bf16 = false;  ///< the kernel rounds p to bf16 before the second product
};

/// softmax(mask(cap(q k^T / sqrt d))) v: q (batch, heads, q_len, d), k, v (batch, kv_heads, kv_len,
/// d). A query that sees no key gives zeros.
Expected attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask);

}  // namespace tessera::reference
