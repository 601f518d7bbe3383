#pragma once

#include "kernels/entry.hpp"
#include "kernels/flash_attention.hpp"
#include "reference/attention.hpp"

namespace tessera::kernels::entries {

/// What kernels of AttentionSizes see, add and drop; the bias aside.
template <class Kernel>
reference::AttentionMask attention_mask(const Kernel& kernel, const OracleInputs& in) {
  reference::AttentionMask mask;
  mask.causal = kernel.causal != 0;
  mask.window = kernel.window;
  mask.softcap = kernel.softcap;
  mask.kv_lengths = values_of(kernel.kv_lengths);
  if (kernel.segments != 0) {
    mask.q_segments = integers_of(in["q_seg"]);
    mask.kv_segments = integers_of(in["kv_seg"]);
  }
  if (kernel.dropout != 0) {
    mask.dropout.rate = kernel.drop_rate;
    for (std::size_t w = 0; w < 2; ++w)
      mask.dropout.seed[w] = static_cast<std::uint32_t>(integers_of(in["seed"])[w]);
  }
  return mask;
}

template <class T>
std::vector<reference::Expected> attention_oracle(const FlashAttention<T>& kernel,
                                                  const OracleInputs& in) {
  reference::AttentionMask mask = attention_mask(kernel, in);
  if (kernel.sinks != 0) mask.sinks = &in["sink"];
  if (kernel.bias != 0) mask.bias = &in["bias"];
  mask.probabilities_in_bf16 = kBytes<T> == 2;
  std::vector<reference::Expected> results =
      reference::attention_with_lse(in["q"], in["k"], in["v"], mask);
  if (kernel.with_lse == 0) results.pop_back();
  return results;
}

constexpr auto flash_attention =
    entry<FlashAttention>([](const auto& k, In in) { return attention_oracle(k, in); });

}  // namespace tessera::kernels::entries
