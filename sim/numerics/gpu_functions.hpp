// The elementary functions that the CUDA build has beside tensor cores (cuda/fast_math.hpp), on
// Hopper: the GPU's instructions (sim/numerics/mufu.hpp) and what nvcc 13 makes of erff, tanhf and
// rsqrtf, which is ordinary arithmetic around them (its PTX). An op that is not here is the exact
// one there too.
#pragma once

namespace tessera {

struct Erf;
struct Exp;
struct Exp2;
struct Rsqrt;
struct Tanh;

template <class Op>
struct GpuFunction {
  static constexpr bool kKnown = false;
};

/// 2 to the x log2(e), the product rounded.
template <>
struct GpuFunction<Exp> {
  static constexpr bool kKnown = true;
  static float apply(float x);
};
template <>
struct GpuFunction<Exp2> {
  static constexpr bool kKnown = true;
  static float apply(float x);
};
/// Polynomials; from about 1.003 on one minus 2 to a polynomial.
template <>
struct GpuFunction<Erf> {
  static constexpr bool kKnown = true;
  static float apply(float x);
};
/// A polynomial below 0.6, then 1 - 2 / (e^2x + 1).
template <>
struct GpuFunction<Tanh> {
  static constexpr bool kKnown = true;
  static float apply(float x);
};
/// Subnormals are scaled, not taken for zero.
template <>
struct GpuFunction<Rsqrt> {
  static constexpr bool kKnown = true;
  static float apply(float x);
};

}  // namespace tessera
