#pragma once

#include "kernels/entry.hpp"
#include "kernels/matmul.hpp"
#include "reference/matmul.hpp"

namespace tessera::kernels::entries {

constexpr auto matmul =
    entry<Matmul>([](const auto&, In in) { return reference::matmul(in["x"], in["y"]); });

}  // namespace tessera::kernels::entries
