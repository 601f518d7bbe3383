#pragma once

#include "kernels/entries/splash_attention_dq.hpp"
#include "kernels/splash_attention_dkv.hpp"

namespace tessera::kernels::entries {

template <class T>
std::vector<reference::Expected> splash_dkv_oracle(const SplashAttentionDkv<T>& k,
                                                   const OracleInputs& in) {
  std::vector<reference::Expected> all = splash_gradients(k, kBytes<T> == 2, in);
  all.erase(all.begin());
  return all;
}

constexpr auto splash_attention_dkv =
    entry<SplashAttentionDkv>([](const auto& k, In in) { return splash_dkv_oracle(k, in); });

}  // namespace tessera::kernels::entries
