#pragma once

#include "kernels/entry.hpp"
#include "kernels/linear_recurrence.hpp"
#include "reference/recurrence.hpp"

namespace tessera::kernels::entries {

constexpr auto linear_recurrence = entry<LinearRecurrence>([](const auto& k, In in) {
  return reference::linear_recurrence(in["a"], in["b"], in["h0"], k.reverse != 0);
});

}  // namespace tessera::kernels::entries
