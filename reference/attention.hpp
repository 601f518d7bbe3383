// Oracles of flash_attention, the whole score matrix, masked, row by row, of its gradients, and of
// paged_attention, of keys and values that lie in pages.
#pragma once

#include "reference/philox.hpp"
#include "reference/tensor.hpp"

namespace tessera::reference {

/// A mask, place by place.
struct DenseMask {
  int kind = 0;  ///< 0: every key; 1: j <= i; 2: |i - j| < window; 3: both; 4: of the same run of
                 ///< `window` keys, or of the first; 5: array
  int window = 1;
  const Tensor* array = nullptr;  ///< (q_len, kv_len): 0 where a key is not seen
  bool probabilities_in_bf16 = false;
};
bool sees(const DenseMask& mask, int i, int j, std::size_t kv_len);

struct AttentionMask {
  bool causal = false;
  int window = 0;                 ///< 0: none
  double softcap = 0;             ///< 0: none
  std::vector<int> kv_lengths;    ///< per batch entry
  std::vector<int> q_segments;    ///< batch x q_len, or empty
  std::vector<int> kv_segments;   ///< batch x kv_len, or empty
  const Tensor* sinks = nullptr;  ///< (heads, 1, 1): logits without a value
  const Tensor* bias = nullptr;   ///< (batch or 1, heads or 1, q_len, kv_len): added to capped
                                  ///< scores
  Dropout dropout;
  bool probabilities_in_bf16 = false;  ///< the kernel rounds p to bf16 before the second product
  const DenseMask* dense = nullptr;    ///< in place of all that is above
  int first_key = 0;                   ///< no key before it is seen
  int end_key = 1 << 30;               ///< nor one from here on
};

/// Of the bias, the place of what query i of batch entry b and head h adds to key j.
std::size_t bias_place(const Tensor& bias, std::size_t b, std::size_t h, std::size_t i,
                       std::size_t j);
/// Whether query i of batch entry b sees key j.
bool sees(const AttentionMask& mask, std::size_t b, int i, int j, std::size_t q_len,
          std::size_t kv_len);

/// softmax(mask(cap(q k^T / sqrt d) + bias)) v: q (batch, heads, q_len, d), k, v (batch, kv_heads,
/// kv_len, d). A query that sees no key gives zeros.
Expected attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask);
/// The same, and the log of each row's sum of exps of scores (batch, heads, q_len, 1): -inf where
/// no key is seen; with sinks, those count among the exps.
std::vector<Expected> attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionMask& mask);
/// Attention under a mask, and its lse: shapes as attention_with_lse.
std::vector<Expected> masked_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const DenseMask& mask);
/// Where the keys of sequences lie, and what is seen of them.
struct Pages {
  std::vector<int> table;         ///< pages of each sequence, in its order
  std::vector<int> lengths;       ///< keys of each sequence
  std::vector<int> starts;        ///< first new token of each sequence, and their number
  int window = 0;                 ///< last keys that are seen; 0: all
  int splits = 1;                 ///< equal runs of the pages that are seen, the last ones shorter
  const Tensor* sinks = nullptr;  ///< (kv_heads, group, 1): logits without a value
  const Tensor* k_scales = nullptr;  ///< (pages, kv_heads, 1, page), of k, and of v
  const Tensor* v_scales = nullptr;
  bool probabilities_in_bf16 = false;
};
/// Of one query per head: q (batch, kv_heads, group, d), k, v (pages, kv_heads, page, d). With
/// splits, one for each run, sinks in the first one's (batch, splits, kv_heads, group, d), and the
/// log of its sum of exps (..., 1).
std::vector<Expected> paged_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                      const Pages& pages);
/// Of new tokens of all sequences, each the query of its own place, and the last keys of a sequence
/// those of its tokens: o, and the caches with them. q (tokens kv_heads, group, d), k_new, v_new
/// (tokens kv_heads, 1, d), caches (pages kv_heads, page, d).
std::vector<Expected> ragged_paged_attention(const Tensor& q, const Tensor& k_new,
                                             const Tensor& v_new, const Tensor& k_cache,
                                             const Tensor& v_cache, const Pages& pages);
/// Parts of attention (batch, parts, rows, d) put together by their lse (batch, parts, rows, 1).
Expected attention_merge(const Tensor& part, const Tensor& lse);

/// The gradients of attention by q, by k, by v and by its bias, if it has one, from its lse and
/// from delta, the products of the rows of dout and o: both of batch x heads x q_len elements.
std::vector<Expected> attention_grad(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& dout, const Tensor& lse, const Tensor& delta,
                                     const AttentionMask& mask);
/// The gradient by sinks (heads, 1), from lse and delta (batch, heads, q_len) as above.
Expected sink_grad(const Tensor& sink, const Tensor& lse, const Tensor& delta);

}  // namespace tessera::reference
