#pragma once

#include "kernels/all_to_all.hpp"
#include "kernels/entry.hpp"
#include "reference/collectives.hpp"

namespace tessera::kernels::entries {

constexpr auto all_to_all = entry<AllToAll>([](const auto& k, In in) {
  auto rows = values_of(k.counts);
  for (auto& n : rows) n *= k.kUnit;
  return reference::all_to_all(in["x"], k.devices, rows, k.limits[0]);
});

}  // namespace tessera::kernels::entries
