#pragma once

#include "kernels/dma_matmul.hpp"
#include "kernels/entry.hpp"
#include "reference/matmul.hpp"

namespace tessera::kernels::entries {

constexpr auto dma_matmul =
    entry<DmaMatmul>([](const auto&, In in) { return reference::matmul(in["x"], in["y"]); });

}  // namespace tessera::kernels::entries
