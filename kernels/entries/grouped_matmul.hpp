#pragma once

#include "kernels/entry.hpp"
#include "kernels/grouped_matmul.hpp"
#include "reference/matmul.hpp"

namespace tessera::kernels::entries {

constexpr auto grouped_matmul = entry<GroupedMatmul>([](const auto& k, In in) {
  return reference::grouped_matmul(in["x"], in["w"], values_of(k.offsets),
                                   {k.existing != 0 ? &in["existing"] : nullptr, k.existing == 2});
});

}  // namespace tessera::kernels::entries
