// What Hopper's tensor cores compute, bit by bit: mma.sync and wgmma with f32 sums.
//
// One step adds a group of products to the sum c: products are exact; each, and c, is cut (toward
// zero) to a multiple of 2^(e - F), e being the largest exponent among them; their sum is exact;
// it is rounded toward zero to the result's mantissa, subnormal results kept, beyond the range to
// infinity. A product's exponent is the sum of its factors', a subnormal number's that of the
// smallest normal one, a zero's -133. A zero is +0, a NaN 0x7fffffff.
//
// mma.sync of fp8 is no instruction on Hopper: it is compiled to two of f16, from 0, over the k
// that are 0 or 1 mod 4 and over the others, whose result is added to c, rounded to nearest.
//
// Measured: Fasi, Higham, Mikaitis, Pranesh, PeerJ Computer Science 7:e330, 2021 (the way); Xie et
// al., MMA-Sim, arXiv:2511.10909 (Hopper's numbers); cuda/tensor_core_test.cu compares all of it
// with a GPU.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "memory_model/dtype.hpp"
#include "sim/ops/exact/f64.hpp"

namespace tessera {

struct TensorCoreStep {
  int group;          ///< products in one step
  int fraction;       ///< F
  int mantissa;       ///< explicit bits of the result
  int least_operand;  ///< the exponent of the smallest normal operand
};

/// Of operands of type T; f32 stands for tf32 (its lowest 13 bits ignored).
template <class T>
TESSERA_FN constexpr TensorCoreStep hopper_step() {
  if constexpr (std::is_same_v<T, float>) return {8, 25, 23, -126};
  if constexpr (std::is_same_v<T, bf16>) return {16, 25, 23, -126};
  if constexpr (std::is_same_v<T, f16>) return {16, 25, 23, -14};
  if constexpr (std::is_same_v<T, f8e4m3fn>) return {32, 13, 13, -6};
  if constexpr (std::is_same_v<T, f8e5m2>) return {32, 13, 13, -14};
}

template <class T>
inline constexpr bool kOnTensorCores = std::is_same_v<T, bf16> || std::is_same_v<T, f16> ||
                                       std::is_same_v<T, f8e4m3fn> || std::is_same_v<T, f8e5m2>;

namespace tensor_core {

constexpr int kOfZero = -133;

/// The operand that the tensor core sees, as f32.
template <class T>
TESSERA_FN float operand(T v) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) & 0xffffe000u);
  else
    return convert<float>(v);
}

/// 128 of infinities and NaN.
TESSERA_FN int exponent(float v, int least) {
  const int e = static_cast<int>(std::bit_cast<std::uint32_t>(v) >> 23 & 0xff) - 127;
  return e < least ? least : e;
}

/// v to f32 with `mantissa` explicit bits, toward zero.
TESSERA_FN float toward_zero(double v, int mantissa) {
  const auto nearest = static_cast<float>(v);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (v != v) return std::bit_cast<float>(0x7fffffffu);
  const double size = std::fabs(v);
  if (static_cast<double>(std::fabs(nearest)) > size && size < 0x1p128) --bits;
  if ((bits & 0x7f800000u) != 0x7f800000u) bits &= ~0u << (23 - mantissa);
  return std::bit_cast<float>(bits) + 0.0f;
}

}  // namespace tensor_core

/// c plus a step's products a[i * a_apart] b[i * b_apart], i < n <= kStep.group; what is missing of
/// the group is zero.
template <TensorCoreStep kStep, class T>
TESSERA_FN float tensor_core_add(float c, const T* a, int a_apart, const T* b, int b_apart, int n) {
  using namespace tensor_core;
  int most = c == 0 ? kOfZero : exponent(c, -126);
  for (int i = 0; i < n; ++i) {
    const float x = operand(a[i * a_apart]);
    const float y = operand(b[i * b_apart]);
    const int e = exponent(x, kStep.least_operand) + exponent(y, kStep.least_operand);
    if (x != 0 && y != 0 && e > most) most = e;
  }
  const double scale = exact::power_of_2(kStep.fraction - most + exact::kToInteger);
  double sum = std::trunc(static_cast<double>(c) * scale);
  for (int i = 0; i < n; ++i) {
    const double product =
        static_cast<double>(operand(a[i * a_apart])) * static_cast<double>(operand(b[i * b_apart]));
    sum += std::trunc(product * scale);
  }
  return toward_zero(sum * exact::power_of_2(most - kStep.fraction + exact::kToInteger),
                     kStep.mantissa);
}

/// mma.sync (m16n8k32) of f8e4m3fn or f8e5m2: c plus 32 products a[k] b[k].
template <class T>
TESSERA_FN float fp8_mma_sync(float c, const T* a, const T* b) {
  static_assert(sizeof(T) == 1);
  constexpr int kK = 32;
  float sum = 0;
  for (int half = 0; half < 2; ++half) {
    f16 x[kK / 2];
    f16 y[kK / 2];
    for (int i = 0; i < kK / 2; ++i) {
      const int k = i / 2 * 4 + 2 * half + i % 2;
      x[i] = convert<f16>(a[k]);
      y[i] = convert<f16>(b[k]);
    }
    sum = tensor_core_add<hopper_step<f16>()>(sum, x, 1, y, 1, kK / 2);
  }
  const float result = c + sum;
  return result != result ? std::bit_cast<float>(0x7fffffffu) : result;
}

}  // namespace tessera
