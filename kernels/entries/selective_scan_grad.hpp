#pragma once

#include "kernels/entry.hpp"
#include "kernels/selective_scan_grad.hpp"
#include "reference/recurrence.hpp"

namespace tessera::kernels::entries {

constexpr auto selective_scan_grad = entry<SelectiveScanGrad>([](const auto& k, In in) {
  const reference::ScanInputs scan{
      in["x"], in["delta"], in["a"],        in["b"],
      in["c"], in["skip"],  k.reverse != 0, static_cast<std::size_t>(k.block_steps)};
  const reference::ScanGradInputs given{in["starts"], in["dy"],
                                        k.stateful != 0 ? &in["dlast"] : nullptr,
                                        static_cast<std::size_t>(k.block_columns)};
  std::vector<reference::Expected> all = reference::selective_scan_grad(scan, given);
  if (k.stateful == 0) all.pop_back();
  return all;
});

}  // namespace tessera::kernels::entries
