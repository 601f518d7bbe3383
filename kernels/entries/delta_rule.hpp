#pragma once

#include "kernels/delta_rule.hpp"
#include "kernels/entry.hpp"
#include "reference/delta_rule.hpp"

namespace tessera::kernels::entries {

template <class T>
std::vector<reference::Expected> delta_rule_oracle(const DeltaRule<T>& k, const OracleInputs& in) {
  reference::DeltaGates gates;
  gates.chunk = static_cast<std::size_t>(k.chunk);
  gates.roundoff = kBytes<T> == 2 ? reference::kUBf16 : reference::kU32;
  if (k.gate == 1) gates.decay = &in["decay"];
  if (k.gate == 2) gates.decay = &in["g"];
  if (k.stateful != 0) gates.state = &in["s0"];
  if (k.rule == 0) return reference::delta_rule(in["q"], in["k"], in["v"], in["beta"], gates);
  return reference::rwkv7(in["q"], in["k"], in["v"], in["a"], in["b"], k.rule == 2, gates);
}

constexpr auto delta_rule =
    entry<DeltaRule>([](const auto& k, In in) { return delta_rule_oracle(k, in); });

}  // namespace tessera::kernels::entries
