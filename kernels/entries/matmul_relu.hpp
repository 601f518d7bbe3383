#pragma once

#include "kernels/entry.hpp"
#include "kernels/matmul_relu.hpp"
#include "reference/matmul.hpp"

namespace tessera::kernels::entries {

constexpr auto matmul_relu =
    entry<MatmulRelu>([](const auto&, In in) { return reference::matmul_relu(in["x"], in["w"]); });

}  // namespace tessera::kernels::entries
