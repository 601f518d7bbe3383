#pragma once

#include "kernels/attention_sink_grad.hpp"
#include "kernels/entry.hpp"
#include "reference/attention.hpp"

namespace tessera::kernels::entries {

constexpr auto attention_sink_grad = entry<AttentionSinkGrad>(
    [](const auto&, In in) { return reference::sink_grad(in["sink"], in["lse"], in["delta"]); });

}  // namespace tessera::kernels::entries
