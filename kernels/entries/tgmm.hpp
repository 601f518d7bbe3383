#pragma once

#include "kernels/entry.hpp"
#include "kernels/tgmm.hpp"
#include "reference/matmul.hpp"

namespace tessera::kernels::entries {

constexpr auto tgmm = entry<Tgmm>([](const auto& k, In in) {
  return reference::tgmm(in["x"], in["y"], values_of(k.offsets),
                         k.existing != 0 ? &in["existing"] : nullptr);
});

}  // namespace tessera::kernels::entries
