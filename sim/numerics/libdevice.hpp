// What Triton makes of the elementary functions of f32 on Hopper: instructions of the GPU
// (sim/numerics/mufu.hpp) and NVIDIA's libdevice, which is ordinary arithmetic around them, linked
// with subnormal operands and results of its fused multiply-adds taken for zero. Learnt from the
// PTX that Triton 3.6 and 3.9 emit for cuda:90, held to a GPU on all 2^32 inputs
// (tests/numerics/triton_hopper.txt).
//
// Not here: functions of libdevice that nobody asked for yet.
#pragma once

namespace tessera::libdevice {

float exp(float x);   ///< tl.exp: 2 to the x log2(e), the product rounded; subnormal results kept
float expf(float x);  ///< libdevice's, whose argument is reduced
float exp2(float x);  ///< ex2.approx.ftz
float log(float x);
float log2(float x);
float log1p(float x);
float sin(float x);
float cos(float x);
float tanh(float x);
float erf(float x);
float sqrt(float x);   ///< sqrt.approx.ftz: not the one rounded to nearest
float rsqrt(float x);  ///< rsqrt.approx.ftz

/// div.full.f32, within 2 ulp: a times the approximate reciprocal of b, both scaled where b is
/// large or subnormal.
float div(float a, float b);
/// a - trunc(a / b) b, as LLVM has the remainder of floats: two roundings. Of an infinite b: a.
float rem(float a, float b);

/// 0 of a subnormal number, with its sign.
float flushed(float x);

/// tanh with subnormal numbers as they are, as nvcc links it.
float tanh_with_subnormals(float x);

}  // namespace tessera::libdevice
