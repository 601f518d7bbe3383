#pragma once

#include "kernels/entry.hpp"
#include "kernels/rope.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

constexpr auto rope = entry<Rope>([](const auto& k, In in) {
  return reference::rope(in["x"], in["cos"], in["sin"], k.back != 0);
});

}  // namespace tessera::kernels::entries
