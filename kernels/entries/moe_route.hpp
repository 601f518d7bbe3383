#pragma once

#include "kernels/entry.hpp"
#include "kernels/moe_route.hpp"
#include "reference/routing.hpp"

namespace tessera::kernels::entries {

constexpr auto moe_route = entry<MoeRoute>([](const auto& k, In in) {
  return reference::moe_route(in["x"], in["w"], static_cast<std::size_t>(k.top));
});

}  // namespace tessera::kernels::entries
