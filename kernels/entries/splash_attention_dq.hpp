#pragma once

#include "kernels/entry.hpp"
#include "kernels/splash_attention_dq.hpp"
#include "reference/attention.hpp"

namespace tessera::kernels::entries {

/// By q, k and v.
template <class Kernel>
std::vector<reference::Expected> splash_gradients(const Kernel& k, bool bf16,
                                                  const OracleInputs& in) {
  reference::DenseMask dense;
  dense.kind = k.mask;
  dense.window = k.window;
  if (k.mask == LiveKeys::kArray) dense.array = &in["mask"];
  reference::AttentionMask mask;
  mask.dense = &dense;
  mask.probabilities_in_bf16 = bf16;
  return reference::attention_grad(in["q"], in["k"], in["v"], in["dout"], in["lse"], in["delta"],
                                   mask);
}

template <class T>
reference::Expected splash_dq_oracle(const SplashAttentionDq<T>& k, const OracleInputs& in) {
  return splash_gradients(k, kBytes<T> == 2, in).front();
}

constexpr auto splash_attention_dq =
    entry<SplashAttentionDq>([](const auto& k, In in) { return splash_dq_oracle(k, in); });

}  // namespace tessera::kernels::entries
