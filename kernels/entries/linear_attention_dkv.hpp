#pragma once

#include "kernels/entries/linear_attention.hpp"
#include "kernels/linear_attention_dkv.hpp"

namespace tessera::kernels::entries {

template <class T>
std::vector<reference::Expected> linear_dkv_oracle(const LinearAttentionDkv<T>& k,
                                                   const OracleInputs& in) {
  const bool by_gates = k.gate == 2;
  const bool by_sums = by_gates || k.decay_grad != 0;
  const bool stateful = k.stateful != 0;
  return of_sequences(k, in, by_gates ? 3 : 2, [&](const OneSequence& one) {
    reference::Gates gates = gates_of(k, in);
    reference::LinearGradInputs given;
    reference::Tensor g;
    reference::Tensor dq;
    reference::Tensor end;
    reference::Tensor ds;
    if (by_gates) gates.of_steps = &(g = one.steps("g"));
    if (by_sums) given.dq = &(dq = one.steps("dq"));
    if (stateful && by_sums) given.end = &(end = one.state("s"));
    if (stateful) given.ds = &(ds = one.state("ds"));
    std::vector<reference::Expected> all = reference::linear_attention_dkv(
        one.steps("q"), one.steps("k"), one.steps("v"), one.steps("dout"), gates, given);
    if (!stateful) all.pop_back();
    if (k.bonus == 0) all.erase(all.begin() + 4);
    if (k.decay_grad == 0) all.erase(all.begin() + 3);
    if (!by_gates) all.erase(all.begin() + 2);
    return all;
  });
}

constexpr auto linear_attention_dkv =
    entry<LinearAttentionDkv>([](const auto& k, In in) { return linear_dkv_oracle(k, in); });

}  // namespace tessera::kernels::entries
