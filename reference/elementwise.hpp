// Oracles of add_vectors, add_blocked and grad_relu.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

/// x + y, of any shape.
Expected add(const Tensor& x, const Tensor& y);
/// dy where y > 0, else 0.
Expected grad_relu(const Tensor& dy, const Tensor& y);

}  // namespace tessera::reference
