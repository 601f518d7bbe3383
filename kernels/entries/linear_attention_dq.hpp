#pragma once

#include "kernels/entries/linear_attention.hpp"
#include "kernels/linear_attention_dq.hpp"

namespace tessera::kernels::entries {

template <class T>
reference::Expected linear_dq_oracle(const LinearAttentionDq<T>& k, const OracleInputs& in) {
  reference::Gates gates = gates_of(k, in);
  gates.state = k.stateful != 0 ? &in["s0"] : nullptr;
  return reference::linear_attention_dq(in["k"], in["v"], in["dout"], gates);
}

constexpr auto linear_attention_dq =
    entry<LinearAttentionDq>([](const auto& k, In in) { return linear_dq_oracle(k, in); });

}  // namespace tessera::kernels::entries
