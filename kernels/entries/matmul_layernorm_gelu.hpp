#pragma once

#include "kernels/entry.hpp"
#include "kernels/matmul_layernorm_gelu.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

constexpr auto matmul_layernorm_gelu = entry<MatmulLayernormGelu>([](const auto& k, In in) {
  return reference::matmul_layernorm_gelu(in["x"], in["w"], in["gamma"], in["beta"], k.eps);
});

}  // namespace tessera::kernels::entries
