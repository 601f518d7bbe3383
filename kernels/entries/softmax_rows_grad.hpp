#pragma once

#include "kernels/entry.hpp"
#include "kernels/softmax_rows_grad.hpp"
#include "reference/rows.hpp"

namespace tessera::kernels::entries {

constexpr auto softmax_rows_grad = entry<SoftmaxRowsGrad>(
    [](const auto&, In in) { return reference::softmax_grad(in["dy"], in["y"]); });

}  // namespace tessera::kernels::entries
