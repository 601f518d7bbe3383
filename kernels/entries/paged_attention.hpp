#pragma once

#include "kernels/entry.hpp"
#include "kernels/paged_attention.hpp"
#include "reference/attention.hpp"

namespace tessera::kernels::entries {

template <class T>
reference::Expected paged_oracle(const PagedAttention<T>& k, const OracleInputs& in) {
  return reference::paged_attention(
      in["q"], in["k"], in["v"],
      {values_of(k.table), values_of(k.lengths), k.window, kBytes<T> == 2});
}

constexpr auto paged_attention =
    entry<PagedAttention>([](const auto& k, In in) { return paged_oracle(k, in); });

}  // namespace tessera::kernels::entries
