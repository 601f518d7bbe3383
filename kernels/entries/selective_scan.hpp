#pragma once

#include "kernels/entry.hpp"
#include "kernels/selective_scan.hpp"
#include "reference/recurrence.hpp"

namespace tessera::kernels::entries {

constexpr auto selective_scan = entry<SelectiveScan>([](const auto& k, In in) {
  return reference::selective_scan(in["x"], in["delta"], in["a"], in["b"], in["c"], in["skip"],
                                   k.stateful != 0 ? &in["h0"] : nullptr);
});

}  // namespace tessera::kernels::entries
