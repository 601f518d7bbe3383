// Quotients of f32 where the exact profile computes: the bits of sim/ops, where many share one
// divisor.
//
// a / b is a times 1 / b in f64, within 2^-52 of the quotient. Quotients of f32 that are not
// midpoints of two floats, subnormal ones included, lie 2^-49 or more from them (Figueroa, "When is
// double rounding innocuous?", SIGNUM 30(3), 1995), and midpoints come from divisors that are
// powers of 2, whose reciprocals are exact. So the rounding is that of a / b.
#pragma once

namespace tessera::cuda {

/// a / b from 1 / b.
__device__ __forceinline__ float quotient(float a, double reciprocal) {
  return static_cast<float>(static_cast<double>(a) * reciprocal);
}

}  // namespace tessera::cuda
