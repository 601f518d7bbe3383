#pragma once

#include "kernels/entries/linear_attention.hpp"
#include "kernels/linear_attention_dkv.hpp"

namespace tessera::kernels::entries {

template <class T>
std::vector<reference::Expected> linear_dkv_oracle(const LinearAttentionDkv<T>& k,
                                                   const OracleInputs& in) {
  const bool by_gates = k.gate == 2;
  const bool stateful = k.stateful != 0;
  const reference::LinearGradInputs given{by_gates ? &in["dq"] : nullptr,
                                          by_gates && stateful ? &in["s"] : nullptr,
                                          stateful ? &in["ds"] : nullptr};
  std::vector<reference::Expected> all = reference::linear_attention_dkv(
      in["q"], in["k"], in["v"], in["dout"], gates_of(k, in), given);
  if (!stateful) all.pop_back();
  if (!by_gates) all.erase(all.begin() + 2);
  return all;
}

constexpr auto linear_attention_dkv =
    entry<LinearAttentionDkv>([](const auto& k, In in) { return linear_dkv_oracle(k, in); });

}  // namespace tessera::kernels::entries
