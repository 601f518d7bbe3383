// The product of two tiles, accumulated in the order of sim/ops/dot.hpp, as fast as that order
// allows.
//
// c (m x n, row-major, row stride ldc) takes one fused multiply-add per k, in increasing k. Every
// output element has one chain, so blocking over m and n and vectorising over n change nothing; k
// is never split. bf16, f16 and fp8 operands are exact in f32 and converted while packing. In
// another profile (sim/numerics/profile.hpp) than the exact one, the sums are that profile's.
#pragma once

#include <cstdint>

#include "memory_model/dtype.hpp"

namespace tessera {

/// A matrix operand by strides: element (i, j) is data[i * row + j * col].
template <class T>
struct Operand2d {
  const T* data;
  std::int64_t row;
  std::int64_t col;
};

/// Defined for A, B of float, bf16, f16, f8e4m3fn, f8e5m2, both the same.
template <class T>
void dot_accumulate(float* c, std::int64_t ldc, Operand2d<T> a, Operand2d<T> b, int m, int n,
                    int k);
/// As that, in the exact profile whatever op_state says. float and bf16.
template <class T>
void chain_accumulate(float* c, std::int64_t ldc, Operand2d<T> a, Operand2d<T> b, int m, int n,
                      int k);
void dot_accumulate(double* c, std::int64_t ldc, Operand2d<double> a, Operand2d<double> b, int m,
                    int n, int k);
template <class T>
void dot_accumulate(std::int32_t* c, std::int64_t ldc, Operand2d<T> a, Operand2d<T> b, int m, int n,
                    int k);

}  // namespace tessera
