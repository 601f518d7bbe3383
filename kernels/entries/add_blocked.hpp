#pragma once

#include "kernels/add_blocked.hpp"
#include "kernels/entry.hpp"
#include "reference/elementwise.hpp"

namespace tessera::kernels::entries {

constexpr auto add_blocked =
    entry<AddBlocked>([](const auto&, In in) { return reference::add(in["x"], in["y"]); });

}  // namespace tessera::kernels::entries
