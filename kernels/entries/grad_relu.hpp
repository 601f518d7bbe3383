#pragma once

#include "kernels/entry.hpp"
#include "kernels/grad_relu.hpp"
#include "reference/elementwise.hpp"

namespace tessera::kernels::entries {

constexpr auto grad_relu =
    entry<GradRelu>([](const auto&, In in) { return reference::grad_relu(in["dy"], in["y"]); });

}  // namespace tessera::kernels::entries
