#pragma once

#include <array>

#include "kernels/entries/flash_attention.hpp"
#include "kernels/flash_attention_dq.hpp"

namespace tessera::kernels::entries {

/// dq, dk, dv and, with a bias, its gradient, of any of the kernels that make them; of these keys
/// alone.
template <class Kernel>
std::vector<reference::Expected> attention_gradients(const Kernel& k, bool bf16_factors,
                                                     const OracleInputs& in,
                                                     const reference::Tensor* bias,
                                                     std::array<int, 2> keys = {0, 1 << 30}) {
  reference::AttentionMask mask = attention_mask(k, in);
  mask.bias = bias;
  mask.first_key = keys[0];
  mask.end_key = keys[1];
  mask.probabilities_in_bf16 = bf16_factors;
  return reference::attention_grad(in["q"], in["k"], in["v"], in["dout"], in["lse"], in["delta"],
                                   mask);
}
template <class T>
std::vector<reference::Expected> dq_oracle(const FlashAttentionDq<T>& k, const OracleInputs& in) {
  std::vector<reference::Expected> all =
      attention_gradients(k, kBytes<T> == 2, in, k.bias != 0 ? &in["bias"] : nullptr);
  all.erase(all.begin() + 1, all.begin() + 3);
  if (!k.gives_bias_gradient()) all.resize(1);
  return all;
}

constexpr auto flash_attention_dq =
    entry<FlashAttentionDq>([](const auto& k, In in) { return dq_oracle(k, in); });

}  // namespace tessera::kernels::entries
