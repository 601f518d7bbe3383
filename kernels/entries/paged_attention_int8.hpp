#pragma once

#include "kernels/entries/paged_attention.hpp"
#include "kernels/paged_attention_int8.hpp"

namespace tessera::kernels::entries {

constexpr auto paged_attention_int8 =
    entry<PagedAttentionInt8>([](const auto& k, In in) { return paged_oracle(k, in); });

}  // namespace tessera::kernels::entries
