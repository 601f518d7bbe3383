#pragma once

#include "kernels/attention_merge.hpp"
#include "kernels/entry.hpp"
#include "reference/attention.hpp"

namespace tessera::kernels::entries {

constexpr auto attention_merge = entry<AttentionMerge>(
    [](const auto&, In in) { return reference::attention_merge(in["part"], in["lse"]); });

}  // namespace tessera::kernels::entries
