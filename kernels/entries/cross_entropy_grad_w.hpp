#pragma once

#include "kernels/cross_entropy_grad_w.hpp"
#include "kernels/entry.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

constexpr auto cross_entropy_grad_w = entry<CrossEntropyGradW>([](const auto& k, In in) {
  const auto both =
      k.teacher != 0 ? reference::kl_divergence_grad(in["x"], in["w"], in["teacher_x"],
                                                     in["teacher_w"], in["lse"], in["teacher_lse"],
                                                     in["dloss"], sum_roundoff(k))
                     : reference::cross_entropy_grad(in["x"], in["w"], integers_of(in["labels"]),
                                                     in["lse"], in["dloss"], sum_roundoff(k));
  return both[1];
});

}  // namespace tessera::kernels::entries
