#pragma once

#include "kernels/entry.hpp"
#include "kernels/linear_attention.hpp"
#include "reference/recurrence.hpp"

namespace tessera::kernels::entries {

template <template <class> class K, class T>
reference::Gates gates_of(const K<T>& k, const OracleInputs& in) {
  reference::Gates gates;
  if (k.gate == 1) gates.of_heads.assign(k.decays.data, k.decays.data + k.decays.size);
  if (k.gate == 2) gates.of_steps = &in["g"];
  gates.roundoff = kBytes<T> == 2 ? reference::kUBf16 : reference::kU32;
  return gates;
}

template <class T>
std::vector<reference::Expected> linear_attention_oracle(const LinearAttention<T>& k,
                                                         const OracleInputs& in) {
  reference::Gates gates = gates_of(k, in);
  gates.state = k.stateful != 0 ? &in["s0"] : nullptr;
  return reference::linear_attention(in["q"], in["k"], in["v"], gates);
}

constexpr auto linear_attention =
    entry<LinearAttention>([](const auto& k, In in) { return linear_attention_oracle(k, in); });

}  // namespace tessera::kernels::entries
