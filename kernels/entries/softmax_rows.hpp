#pragma once

#include "kernels/entry.hpp"
#include "kernels/softmax_rows.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

constexpr auto softmax_rows =
    entry<SoftmaxRows>([](const auto&, In in) { return reference::softmax(in["x"]); });

}  // namespace tessera::kernels::entries
