#pragma once

#include "kernels/entry.hpp"
#include "kernels/split_sum.hpp"
#include "reference/matmul.hpp"

namespace tessera::kernels::entries {

constexpr auto split_sum =
    entry<SplitSum>([](const auto&, In in) { return reference::split_sum(in["part"]); });

}  // namespace tessera::kernels::entries
