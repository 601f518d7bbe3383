// The product with weights of int8: kernels/quantised_matmul.hpp has the body and the equation.
#pragma once

#include "kernels/quantised_matmul.hpp"

namespace tessera::kernels {

template <class T>
using QuantisedMatmulInt8 = QuantisedProduct<T, std::int8_t>;

}  // namespace tessera::kernels
