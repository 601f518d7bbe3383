#pragma once

#include "kernels/entries/flash_attention_dq.hpp"
#include "kernels/flash_attention_dkv.hpp"

namespace tessera::kernels::entries {

/// (batch, heads, kv_len, q_len) as (batch, heads, q_len, kv_len).
inline reference::Tensor queries_first(const reference::Tensor& bias) {
  const std::size_t keys = bias.shape[2];
  const std::size_t queries = bias.shape[3];
  reference::Tensor turned{{bias.shape[0], bias.shape[1], queries, keys}, bias.values};
  for (std::size_t i = 0; i < bias.values.size(); ++i) {
    const std::size_t plane = i / (keys * queries);
    const std::size_t j = i / queries % keys;
    turned.values[(plane * queries + i % queries) * keys + j] = bias.values[i];
  }
  return turned;
}

template <class T>
std::vector<reference::Expected> dkv_oracle(const FlashAttentionDkv<T>& k, const OracleInputs& in) {
  reference::Tensor bias;
  if (k.bias != 0) bias = queries_first(in["bias"]);
  std::vector<reference::Expected> all =
      attention_gradients(k, kBytes<T> == 2, in, k.bias != 0 ? &bias : nullptr);
  return {all[1], all[2]};
}

constexpr auto flash_attention_dkv =
    entry<FlashAttentionDkv>([](const auto& k, In in) { return dkv_oracle(k, in); });

}  // namespace tessera::kernels::entries
