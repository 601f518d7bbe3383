// Oracles of flash_attention, the whole score matrix, masked, row by row, and of paged_attention,
// the same of keys and values that were gathered.
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
/// Where the keys of sequences lie.
struct Pages {
  std::vector<int> table;    ///< pages of each sequence, in its order
  std::vector<int> lengths;  ///< keys of each sequence
  int window = 0;            ///< last keys that are seen; 0: all
  bool probabilities_in_bf16 = false;
};
/// Of one query per head: q (batch, kv_heads, group, d), k, v (pages, kv_heads, page, d).
Expected paged_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Pages& pages);

}  // namespace tessera::reference
