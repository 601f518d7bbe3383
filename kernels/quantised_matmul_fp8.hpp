// The product with weights of e4m3: kernels/quantised_matmul.hpp has the body and the equation.
#pragma once

#include "kernels/quantised_matmul.hpp"

namespace tessera::kernels {

template <class T>
using QuantisedMatmulFp8 = QuantisedProduct<T, f8e4m3fn>;

}  // namespace tessera::kernels
