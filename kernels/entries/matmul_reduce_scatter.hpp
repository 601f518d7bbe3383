#pragma once

#include "kernels/entry.hpp"
#include "kernels/matmul_reduce_scatter.hpp"
#include "reference/collectives.hpp"

namespace tessera::kernels::entries {

constexpr auto matmul_reduce_scatter = entry<MatmulReduceScatter>([](const auto& k, In in) {
  return reference::matmul_reduce_scatter(in["x"], in["w"], k.devices);
});

}  // namespace tessera::kernels::entries
