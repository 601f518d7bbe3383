#pragma once

#include "kernels/add_vectors.hpp"
#include "kernels/entry.hpp"
#include "reference/elementwise.hpp"

namespace tessera::kernels::entries {

constexpr auto add_vectors =
    entry<AddVectors>([](const auto&, In in) { return reference::add(in["x"], in["y"]); });

}  // namespace tessera::kernels::entries
