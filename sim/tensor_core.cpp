#include "sim/tensor_core.hpp"

#include <algorithm>
#include <cstring>
#include <xsimd/xsimd.hpp>

#include "sim/ops/tensor_core.hpp"

namespace tessera {

namespace {

using Lanes = xsimd::batch<double>;
constexpr int kLanes = static_cast<int>(Lanes::size);
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

/// 2^n of n as a double.
Lanes power_of_2(const Lanes& n) {
  constexpr double kToInteger = 0x1.8p52;
  constexpr std::uint64_t kOne = std::uint64_t{1023} << 52;
  const auto bits = xsimd::bitwise_cast<xsimd::batch<std::uint64_t>>(n + kToInteger) << 52;
  return xsimd::bitwise_cast<Lanes>(bits + xsimd::batch<std::uint64_t>(kOne));
}

/// One step of kCols sums: c += a (one row of a group) b (a group by kCols).
template <TensorCoreStep kStep>
void add_group(float* c, const Factors& a, const Factors& b) {
  alignas(64) double sum[kCols];
  alignas(64) double most[kCols];
  for (int j = 0; j < kCols; ++j) {
    sum[j] = static_cast<double>(c[j]);
    most[j] = c[j] == 0 ? tensor_core::kOfZero : tensor_core::exponent(c[j], -126);
  }
  for (int j = 0; j < kCols; j += kLanes) {
    Lanes e = Lanes::load_aligned(most + j);
    for (int p = 0; p < kStep.group; ++p)
      e = xsimd::max(e, Lanes(a.exponent[p]) + Lanes::load_aligned(b.exponent + p * kCols + j));
    const Lanes scale = power_of_2(Lanes(kStep.fraction) - e);
    Lanes s = xsimd::trunc(Lanes::load_aligned(sum + j) * scale);
    for (int p = 0; p < kStep.group; ++p)
      s += xsimd::trunc(Lanes(a.value[p]) * Lanes::load_aligned(b.value + p * kCols + j) * scale);
    (s * power_of_2(e - Lanes(kStep.fraction))).store_aligned(sum + j);
  }
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
