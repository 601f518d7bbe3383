#pragma once

#include "kernels/entries/linear_attention.hpp"
#include "kernels/linear_attention_dq.hpp"

namespace tessera::kernels::entries {

template <class T>
std::vector<reference::Expected> linear_dq_oracle(const LinearAttentionDq<T>& k,
                                                  const OracleInputs& in) {
  return of_sequences(k, in, 1, [&](const OneSequence& one) {
    reference::Gates gates = gates_of(k, in);
    reference::Tensor g;
    reference::Tensor s0;
    if (k.gate == 2) gates.of_steps = &(g = one.steps("g"));
    if (k.stateful != 0) gates.state = &(s0 = one.state("s0"));
    return std::vector{
        reference::linear_attention_dq(one.steps("k"), one.steps("v"), one.steps("dout"), gates)};
  });
}

constexpr auto linear_attention_dq =
    entry<LinearAttentionDq>([](const auto& k, In in) { return linear_dq_oracle(k, in); });

}  // namespace tessera::kernels::entries
