#pragma once

#include "kernels/entry.hpp"
#include "kernels/grad_w.hpp"
#include "reference/matmul.hpp"

namespace tessera::kernels::entries {

constexpr auto grad_w =
    entry<GradW>([](const auto&, In in) { return reference::grad_w(in["x"], in["dy"], in["y"]); });

}  // namespace tessera::kernels::entries
