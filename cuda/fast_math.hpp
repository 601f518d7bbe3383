// Elementary functions of f32 where tensor cores multiply, and of long rows that are read and
// written as narrower floats (sim/body/cta.hpp): the GPU's own, within the ulp that the CUDA C++
// Programming Guide states ("Mathematical Functions"); exp is 2 to the x log2(e), in the hardware's
// ex2.approx.
#pragma once

#include "sim/ops/erf.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/min.hpp"
#include "sim/ops/rsqrt.hpp"
#include "sim/ops/tanh.hpp"

namespace tessera::cuda {

/// The build option that makes them sim/ops' there too: kernels on tensor cores then have the bits
/// of the interpreter's profile tensorcore:hopper.
#ifdef TESSERA_EXACT_FUNCTIONS
inline constexpr bool kExactFunctions = true;
#else
inline constexpr bool kExactFunctions = false;
#endif

/// The op itself, but for those below.
template <class Op>
struct Fast {
  template <class... T>
  static __device__ __forceinline__ auto apply(T... v) {
    return Op::apply(v...);
  }
};

__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// One instruction each; of two zeros either.
template <>
struct Fast<Maximum> {
  template <class T>
  static __device__ __forceinline__ T apply(T a, T b) {
    if constexpr (std::is_same_v<T, float>)
      asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    else
      a = Maximum::apply(a, b);
    return a;
  }
};
template <>
struct Fast<Minimum> {
  template <class T>
  static __device__ __forceinline__ T apply(T a, T b) {
    if constexpr (std::is_same_v<T, float>)
      asm("min.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    else
      a = Minimum::apply(a, b);
    return a;
  }
};
template <>
struct Fast<Exp2> {
  static __device__ __forceinline__ float apply(float x) { return fast_exp2(x); }
};
template <>
struct Fast<Exp> {
  static __device__ __forceinline__ float apply(float x) { return fast_exp2(x * 1.44269504f); }
};
template <>
struct Fast<Tanh> {
  static __device__ __forceinline__ float apply(float x) { return tanhf(x); }
};
template <>
struct Fast<Erf> {
  static __device__ __forceinline__ float apply(float x) { return erff(x); }
};
template <>
struct Fast<Rsqrt> {
  static __device__ __forceinline__ float apply(float x) { return rsqrtf(x); }
};

/// Op on the values of one position, as the layout's threads compute it.
template <class Th, class Op, class... T>
__device__ __forceinline__ auto compute(T... v) {
  if constexpr (Th::kFastFunctions && !kExactFunctions)
    return apply_element<Fast<Op>>(v...);
  else
    return apply_element<Op>(v...);
}

}  // namespace tessera::cuda
