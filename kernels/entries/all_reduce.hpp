#pragma once

#include "kernels/all_reduce.hpp"
#include "kernels/entry.hpp"
#include "reference/collectives.hpp"

namespace tessera::kernels::entries {

constexpr auto all_reduce = entry<AllReduce>([](const auto& k, In in) {
  return reference::all_reduce(in["x"], k.devices, sum_roundoff(k));
});

}  // namespace tessera::kernels::entries
