// Oracle of moe_route: the largest columns of a product's rows.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

/// Of each row of x @ w the `top` largest columns, the largest first: their softmax, and which they
/// are. A column whose place in that order rounding may change is any.
std::vector<Expected> moe_route(const Tensor& x, const Tensor& w, std::size_t top);

}  // namespace tessera::reference
