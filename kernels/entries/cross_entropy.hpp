#pragma once

#include "kernels/cross_entropy.hpp"
#include "kernels/entry.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

constexpr auto cross_entropy = entry<CrossEntropy>([](const auto&, In in) {
  return reference::cross_entropy(in["x"], in["w"], integers_of(in["labels"]));
});

}  // namespace tessera::kernels::entries
