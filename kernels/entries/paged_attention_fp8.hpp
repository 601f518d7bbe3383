#pragma once

#include "kernels/entries/paged_attention.hpp"
#include "kernels/paged_attention_fp8.hpp"

namespace tessera::kernels::entries {

constexpr auto paged_attention_fp8 =
    entry<PagedAttentionFp8>([](const auto& k, In in) { return paged_oracle(k, in); });

}  // namespace tessera::kernels::entries
