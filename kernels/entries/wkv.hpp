#pragma once

#include "kernels/entry.hpp"
#include "kernels/wkv.hpp"
#include "reference/recurrence.hpp"

namespace tessera::kernels::entries {

constexpr auto wkv = entry<Wkv>([](const auto& k, In in) {
  return reference::wkv(in["k"], in["v"], in["w"], in["u"], k.stateful != 0 ? &in["s0"] : nullptr);
});

}  // namespace tessera::kernels::entries
