#pragma once

#include "kernels/entry.hpp"
#include "kernels/halo_exchange.hpp"
#include "reference/collectives.hpp"

namespace tessera::kernels::entries {

constexpr auto halo_exchange =
    entry<HaloExchange>([](const auto&, In in) { return reference::three_rows(in["x"]); });

}  // namespace tessera::kernels::entries
