#pragma once

#include "kernels/entry.hpp"
#include "kernels/paged_attention.hpp"
#include "reference/attention.hpp"

namespace tessera::kernels::entries {

template <class T, class Cache>
std::vector<reference::Expected> paged_oracle(const PagedDecode<T, Cache>& k,
                                              const OracleInputs& in) {
  reference::Pages pages;
  pages.table = values_of(k.table);
  pages.lengths = values_of(k.lengths);
  pages.window = k.window;
  pages.splits = k.splits;
  pages.sinks = k.sinks != 0 ? &in["sink"] : nullptr;
  pages.k_scales = k.kScaled ? &in["k_scale"] : nullptr;
  pages.v_scales = k.kScaled ? &in["v_scale"] : nullptr;
  pages.probabilities_in_bf16 = kBytes<T> == 2;
  return reference::paged_attention(in["q"], in["k"], in["v"], pages);
}

constexpr auto paged_attention =
    entry<PagedAttention>([](const auto& k, In in) { return paged_oracle(k, in); });

}  // namespace tessera::kernels::entries
