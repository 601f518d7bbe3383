#pragma once

#include "kernels/entry.hpp"
#include "kernels/mla_absorbed.hpp"
#include "reference/latent_attention.hpp"

namespace tessera::kernels::entries {

template <class T>
reference::Expected mla_absorbed_oracle(const MlaAbsorbed<T>& k, const OracleInputs& in) {
  return reference::latent_attention(in["q"], in["qr"], in["c"], in["kr"],
                                     {nullptr, nullptr, values_of(k.table), values_of(k.lengths),
                                      k.q_len, k.causal != 0, kBytes<T> == 2});
}

constexpr auto mla_absorbed =
    entry<MlaAbsorbed>([](const auto& k, In in) { return mla_absorbed_oracle(k, in); });

}  // namespace tessera::kernels::entries
