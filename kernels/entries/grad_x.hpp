#pragma once

#include "kernels/entry.hpp"
#include "kernels/grad_x.hpp"
#include "reference/matmul.hpp"

namespace tessera::kernels::entries {

constexpr auto grad_x =
    entry<GradX>([](const auto&, In in) { return reference::grad_x(in["dy"], in["y"], in["w"]); });

}  // namespace tessera::kernels::entries
