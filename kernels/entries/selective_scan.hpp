#pragma once

#include "kernels/entry.hpp"
#include "kernels/selective_scan.hpp"
#include "reference/recurrence.hpp"

namespace tessera::kernels::entries {

constexpr auto selective_scan = entry<SelectiveScan>([](const auto& k, In in) {
  const reference::ScanInputs scan{
      in["x"], in["delta"], in["a"],        in["b"],
      in["c"], in["skip"],  k.reverse != 0, static_cast<std::size_t>(k.block_steps)};
  std::vector<reference::Expected> all =
      reference::selective_scan(scan, k.stateful != 0 ? &in["h0"] : nullptr);
  if (k.keep == 0) all.pop_back();
  return all;
});

}  // namespace tessera::kernels::entries
