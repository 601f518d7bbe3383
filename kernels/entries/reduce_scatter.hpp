#pragma once

#include "kernels/entry.hpp"
#include "kernels/reduce_scatter.hpp"
#include "reference/collectives.hpp"

namespace tessera::kernels::entries {

constexpr auto reduce_scatter = entry<ReduceScatter>([](const auto& k, In in) {
  return reference::reduce_scatter(in["x"], k.devices, sum_roundoff(k));
});

}  // namespace tessera::kernels::entries
