#pragma once

#include "kernels/entry.hpp"
#include "kernels/ring_all_gather.hpp"
#include "reference/collectives.hpp"

namespace tessera::kernels::entries {

constexpr auto ring_all_gather = entry<RingAllGather>(
    [](const auto& k, In in) { return reference::all_gather(in["x"], k.devices); });

}  // namespace tessera::kernels::entries
