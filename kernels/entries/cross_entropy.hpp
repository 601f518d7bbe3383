#pragma once

#include "kernels/cross_entropy.hpp"
#include "kernels/entry.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

constexpr auto cross_entropy = entry<CrossEntropy>([](const auto& k, In in) {
  return k.teacher != 0
             ? reference::kl_divergence(in["x"], in["w"], in["teacher_x"], in["teacher_w"])
             : reference::cross_entropy(in["x"], in["w"], integers_of(in["labels"]));
});

}  // namespace tessera::kernels::entries
