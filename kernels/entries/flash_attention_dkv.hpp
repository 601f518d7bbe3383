#pragma once

#include "kernels/entries/flash_attention_dq.hpp"
#include "kernels/flash_attention_dkv.hpp"

namespace tessera::kernels::entries {

template <class T>
std::vector<reference::Expected> dkv_oracle(const FlashAttentionDkv<T>& k, const OracleInputs& in) {
  std::vector<reference::Expected> all = attention_gradients(k, kBytes<T> == 2, in);
  all.erase(all.begin());
  return all;
}

constexpr auto flash_attention_dkv =
    entry<FlashAttentionDkv>([](const auto& k, In in) { return dkv_oracle(k, in); });

}  // namespace tessera::kernels::entries
