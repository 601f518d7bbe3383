// Precision and range of the float types (ml_dtypes; IEEE 754 for f16, f32 and f64).
#pragma once

#include "memory_model/dtype.hpp"

namespace tessera {

/// Bits of the significand that are stored; 0 for other types.
constexpr int mantissa_bits(DType d) {
  switch (d) {
    case DType::f64:
      return 52;
    case DType::f32:
      return 23;
    case DType::f16:
      return 10;
    case DType::bf16:
      return 7;
    case DType::f8e4m3fn:
    case DType::f8e4m3b11fnuz:
      return 3;
    case DType::f8e5m2:
      return 2;
    case DType::f4e2m1fn:
      return 1;
    default:
      return 0;
  }
}

/// Exponent of the smallest normal number.
constexpr int smallest_exponent(DType d) {
  switch (d) {
    case DType::f64:
      return -1022;
    case DType::f16:
      return -14;
    case DType::f8e4m3fn:
      return -6;
    case DType::f8e4m3b11fnuz:
      return -10;
    case DType::f4e2m1fn:
      return 0;
    case DType::f8e5m2:
      return -14;
    default:
      return -126;
  }
}

}  // namespace tessera
