#pragma once

#include "kernels/entry.hpp"
#include "kernels/splash_attention.hpp"
#include "reference/attention.hpp"

namespace tessera::kernels::entries {

template <class T>
std::vector<reference::Expected> splash_oracle(const SplashAttention<T>& k,
                                               const OracleInputs& in) {
  reference::DenseMask mask;
  mask.kind = k.mask;
  mask.window = k.window;
  if (k.mask == LiveKeys::kArray) mask.array = &in["mask"];
  mask.probabilities_in_bf16 = kBytes<T> == 2;
  std::vector<reference::Expected> results =
      reference::masked_attention(in["q"], in["k"], in["v"], mask);
  if (k.with_lse == 0) results.pop_back();
  return results;
}

constexpr auto splash_attention =
    entry<SplashAttention>([](const auto& k, In in) { return splash_oracle(k, in); });

}  // namespace tessera::kernels::entries
