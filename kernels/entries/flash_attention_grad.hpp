#pragma once

#include "kernels/entries/flash_attention_dkv.hpp"
#include "kernels/flash_attention_grad.hpp"

namespace tessera::kernels::entries {

/// dq, or its parts, run after run; dk, dv and, where the kernel gives it, dbias with keys first.
template <class T>
std::vector<reference::Expected> grad_oracle(const FlashAttentionGrad<T>& k,
                                             const OracleInputs& in) {
  reference::Tensor bias;
  if (k.bias != 0) bias = queries_first(in["bias"]);
  const reference::Tensor* added = k.bias != 0 ? &bias : nullptr;
  std::vector<reference::Expected> all = attention_gradients(k, kBytes<T> == 2, in, added);
  if (k.run_keys < k.kv_len) {
    reference::Expected parts;
    for (int from = 0; from < k.kv_len; from += k.run_keys) {
      const reference::Expected part =
          attention_gradients(k, kBytes<T> == 2, in, added, {from, from + k.run_keys})[0];
      for (const auto of : {&reference::Expected::value, &reference::Expected::error}) {
        auto& to = parts.*of;
        to.values.insert(to.values.end(), (part.*of).values.begin(), (part.*of).values.end());
        to.shape = part.value.shape;
        to.shape.insert(to.shape.begin(), to.values.size() / part.value.values.size());
      }
    }
    all[0] = parts;
  }
  if (!k.gives_bias_gradient()) all.resize(3);
  if (k.gives_bias_gradient()) {
    all[3].value = queries_first(all[3].value);  // turned back: keys first
    all[3].error = queries_first(all[3].error);
  }
  return all;
}

constexpr auto flash_attention_grad =
    entry<FlashAttentionGrad>([](const auto& k, In in) { return grad_oracle(k, in); });

}  // namespace tessera::kernels::entries
