#pragma once

#include "kernels/cross_entropy_grad_w.hpp"
#include "kernels/entry.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

constexpr auto cross_entropy_grad_w = entry<CrossEntropyGradW>([](const auto& k, In in) {
  return reference::cross_entropy_grad(in["x"], in["w"], integers_of(in["labels"]), in["lse"],
                                       in["dloss"], sum_roundoff(k))[1];
});

}  // namespace tessera::kernels::entries
