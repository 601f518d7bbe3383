// Oracles of native sparse attention, query by query: q and o (batch, kv_heads, len group,
// head_dim), the rows of a query beside each other, keys (batch, kv_heads, .., head_dim).
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

struct SparseBranches {
  std::size_t group = 1;          ///< query heads of a key head
  std::size_t share = 1;          ///< queries that share a row of ids
  std::size_t block = 1;          ///< keys of a block
  std::size_t top = 1;            ///< ids in a row of them
  std::size_t window = 0;         ///< last keys of the sliding branch; 0: without it
  const Tensor* part = nullptr;   ///< what the compressed branch gave, as o
  const Tensor* g_slc = nullptr;  ///< weights of branches (.., len group, 1); none: 1
  const Tensor* g_win = nullptr;
  const Tensor* g_cmp = nullptr;
  bool probabilities_in_bf16 = false;
};
/// The weighted sum of attention to the blocks `ids` (batch, kv_heads, len / share, top), -1: none,
/// to the last `window` keys, and of `part`; keys after a query are not seen.
Expected native_sparse_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const std::vector<int>& ids, const SparseBranches& branches);

/// Attention to the compressed keys of blocks that end by a query; and for each run of `share`
/// queries its own block and the top - 1 before it with the largest sums of probabilities. Those
/// that are nearer to each other than f32 tells may be any: their error is their number.
std::vector<Expected> native_sparse_select(const Tensor& q, const Tensor& k_cmp,
                                           const Tensor& v_cmp, const SparseBranches& branches);

}  // namespace tessera::reference
