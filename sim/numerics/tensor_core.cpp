#include "sim/numerics/tensor_core.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sim/numerics/part.hpp"
#include "sim/ops/exact/f64.hpp"
#include "sim/ops/tensor_core.hpp"

namespace tessera {

namespace {

constexpr int kCols = 64;  // of b at once: 64 x 32 values and exponents are 32 KiB
constexpr int kMostInGroup = 32;
constexpr double kNothing = -4096;  // the exponent of a zero factor: no product is smaller

/// A factor's value, and its exponent.
struct Factors {
  alignas(64) double value[kMostInGroup * kCols];
  alignas(64) double exponent[kMostInGroup * kCols];

  template <class T>
  void set(int i, T of) {
    const float v = tensor_core::operand(of);
    value[i] = static_cast<double>(v);
    exponent[i] = v == 0 ? kNothing : tensor_core::exponent(v, hopper_step<T>().least_operand);
  }
};

/// One step of kCols sums: c += a (one row of a group) b (a group by kCols).
template <TensorCoreStep kStep>
void add_group(float* c, const Factors& a, const Factors& b) {
  alignas(64) double sum[kCols];
  alignas(64) double most[kCols];
  alignas(64) double scale[kCols];
  for (int j = 0; j < kCols; ++j) {
    sum[j] = static_cast<double>(c[j]);
    most[j] = c[j] == 0 ? tensor_core::kOfZero : tensor_core::exponent(c[j], -126);
  }
  for (int p = 0; p < kStep.group; ++p) {
    const double* const of_b = b.exponent + p * kCols;
    for (int j = 0; j < kCols; ++j) {
      const double e = a.exponent[p] + of_b[j];
      most[j] = e > most[j] ? e : most[j];
    }
  }
  for (int j = 0; j < kCols; ++j) {
    scale[j] = exact::power_of_2(kStep.fraction - most[j] + exact::kToInteger);
    sum[j] = std::trunc(sum[j] * scale[j]);
  }
  for (int p = 0; p < kStep.group; ++p) {
    const double* const of_b = b.value + p * kCols;
    for (int j = 0; j < kCols; ++j) sum[j] += std::trunc(a.value[p] * of_b[j] * scale[j]);
  }
  for (int j = 0; j < kCols; ++j)
    sum[j] *= exact::power_of_2(most[j] - kStep.fraction + exact::kToInteger);
  for (int j = 0; j < kCols; ++j) c[j] = tensor_core::toward_zero(sum[j], kStep.mantissa);
}

}  // namespace

template <class T>
void tensor_core_accumulate(float* c, std::int64_t ldc, Operand2d<T> a, Operand2d<T> b, int m,
                            int n, int k) {
  constexpr TensorCoreStep kStep = hopper_step<T>();
  static thread_local Factors left;
  static thread_local Factors right;
  alignas(64) float sums[kCols];
  for (int j0 = 0; j0 < n; j0 += kCols) {
    const int cols = std::min(kCols, n - j0);
    for (int k0 = 0; k0 < k; k0 += kStep.group) {
      begin_part();
      for (int p = 0; p < kStep.group; ++p) {
        for (int j = 0; j < kCols; ++j) {
          const bool there = k0 + p < k && j < cols;
          right.set(p * kCols + j, there ? b.data[(k0 + p) * b.row + (j0 + j) * b.col] : T(0.f));
        }
      }
      for (int i = 0; i < m; ++i) {
        for (int p = 0; p < kStep.group; ++p)
          left.set(p, k0 + p < k ? a.data[i * a.row + (k0 + p) * a.col] : T(0.f));
        float* const to = c + i * ldc + j0;
        if (cols == kCols) {
          add_group<kStep>(to, left, right);
        } else {
          std::memset(sums, 0, sizeof sums);
          std::memcpy(sums, to, sizeof(float) * static_cast<std::size_t>(cols));
          add_group<kStep>(sums, left, right);
          std::memcpy(to, sums, sizeof(float) * static_cast<std::size_t>(cols));
        }
      }
    }
  }
}

template void tensor_core_accumulate(float*, std::int64_t, Operand2d<float>, Operand2d<float>, int,
                                     int, int);
template void tensor_core_accumulate(float*, std::int64_t, Operand2d<bf16>, Operand2d<bf16>, int,
                                     int, int);
template void tensor_core_accumulate(float*, std::int64_t, Operand2d<f16>, Operand2d<f16>, int, int,
                                     int);
template void tensor_core_accumulate(float*, std::int64_t, Operand2d<f8e4m3fn>, Operand2d<f8e4m3fn>,
                                     int, int, int);
template void tensor_core_accumulate(float*, std::int64_t, Operand2d<f8e5m2>, Operand2d<f8e5m2>,
                                     int, int, int);

}  // namespace tessera
