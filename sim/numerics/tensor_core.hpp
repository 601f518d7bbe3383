// The product of two tiles as Hopper's tensor cores compute it (sim/ops/tensor_core.hpp): c takes
// one step per group of k, in increasing k, the last one filled up with zeros.
#pragma once

#include <cstdint>

#include "sim/numerics/dot.hpp"

namespace tessera {

/// Defined for bf16, f16, f8e4m3fn, f8e5m2 and, as tf32, float.
template <class T>
void tensor_core_accumulate(float* c, std::int64_t ldc, Operand2d<T> a, Operand2d<T> b, int m,
                            int n, int k);

}  // namespace tessera
