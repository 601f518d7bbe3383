#pragma once

#include "kernels/entry.hpp"
#include "kernels/flash_attention_dq.hpp"
#include "reference/attention.hpp"

namespace tessera::kernels::entries {

/// dq, dk, dv and, with a bias, its gradient, of either of the kernels that make them.
template <class Kernel>
std::vector<reference::Expected> attention_gradients(const Kernel& k, bool bf16_factors,
                                                     const OracleInputs& in,
                                                     const reference::Tensor* bias) {
  reference::AttentionMask mask;
  mask.causal = k.causal != 0;
  mask.window = k.window;
  mask.softcap = k.softcap;
  mask.kv_lengths = values_of(k.kv_lengths);
  if (k.segments != 0) {
    mask.q_segments = integers_of(in["q_seg"]);
    mask.kv_segments = integers_of(in["kv_seg"]);
  }
  mask.bias = bias;
  mask.probabilities_in_bf16 = bf16_factors;
  return reference::attention_grad(in["q"], in["k"], in["v"], in["dout"], in["lse"], in["delta"],
                                   mask);
}
template <class T>
std::vector<reference::Expected> dq_oracle(const FlashAttentionDq<T>& k, const OracleInputs& in) {
  std::vector<reference::Expected> all =
      attention_gradients(k, kBytes<T> == 2, in, k.bias != 0 ? &in["bias"] : nullptr);
  all.erase(all.begin() + 1, all.begin() + 3);
  return all;
}

constexpr auto flash_attention_dq =
    entry<FlashAttentionDq>([](const auto& k, In in) { return dq_oracle(k, in); });

}  // namespace tessera::kernels::entries
