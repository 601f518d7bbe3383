#pragma once

#include "kernels/all_gather_matmul.hpp"
#include "kernels/entry.hpp"
#include "reference/collectives.hpp"

namespace tessera::kernels::entries {

constexpr auto all_gather_matmul = entry<AllGatherMatmul>(
    [](const auto& k, In in) { return reference::all_gather_matmul(in["x"], in["w"], k.devices); });

}  // namespace tessera::kernels::entries
