#pragma once

#include "kernels/entry.hpp"
#include "kernels/ragged_paged_attention.hpp"
#include "reference/attention.hpp"

namespace tessera::kernels::entries {

template <class T>
std::vector<reference::Expected> ragged_oracle(const RaggedPagedAttention<T>& k,
                                               const OracleInputs& in) {
  reference::Pages pages;
  pages.table = values_of(k.table);
  pages.lengths = values_of(k.lengths);
  pages.starts = values_of(k.starts);
  pages.window = k.window;
  pages.probabilities_in_bf16 = kBytes<T> == 2;
  return reference::ragged_paged_attention(in["q"], in["k_new"], in["v_new"], in["k_cache"],
                                           in["v_cache"], pages);
}

constexpr auto ragged_paged_attention =
    entry<RaggedPagedAttention>([](const auto& k, In in) { return ragged_oracle(k, in); });

}  // namespace tessera::kernels::entries
