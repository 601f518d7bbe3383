#pragma once

#include "kernels/entry.hpp"
#include "kernels/pipelined_add.hpp"
#include "reference/elementwise.hpp"

namespace tessera::kernels::entries {

constexpr auto pipelined_add =
    entry<PipelinedAdd>([](const auto&, In in) { return reference::add(in["x"], in["y"]); });

}  // namespace tessera::kernels::entries
