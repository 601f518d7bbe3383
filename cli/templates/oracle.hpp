// What my_kernel should compute, in f64, the obvious way.
#pragma once

#include <cmath>

#include "reference/tensor.hpp"

inline tessera::reference::Expected my_kernel_oracle(const tessera::reference::Tensor& x,
                                                     const tessera::reference::Tensor& y,
                                                     double alpha) {
  tessera::reference::Expected e{x, x};
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    e.value.values[i] = alpha * x.values[i] + y.values[i];
    // How far f32 may be off: two roundings.
    e.error.values[i] =
        tessera::reference::kU32 * (std::abs(alpha * x.values[i]) + std::abs(e.value.values[i]));
  }
  return e;
}
