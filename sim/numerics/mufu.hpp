// The approximate elementary functions of NVIDIA's Hopper, bit for bit: what the instructions
// ex2.approx.ftz.f32, lg2.approx.ftz.f32, rcp.approx.ftz.f32, rsqrt.approx.ftz.f32,
// sqrt.approx.ftz.f32, sin.approx.ftz.f32 and cos.approx.ftz.f32 of PTX give, on every one of the
// 2^32 inputs (tests/numerics/mufu_hopper.txt: recorded on an H100).
//
// The unit is the one that Oberman and Siu describe ("A High-Performance Area-Efficient
// Multifunction Interpolator", ARITH 2005): the upper bits of a significand choose a segment, whose
// three coefficients are those of a quadratic in the lower bits d. NVIDIA publishes neither the
// coefficients nor how the square of d is cut; both are known from the outputs.
//
// Not here: tanh.approx, whose segments are others; the functions in halves.
#pragma once

#include <cstddef>

namespace tessera::mufu {

float ex2(float x);
float lg2(float x);
float rcp(float x);
float rsqrt(float x);
float sqrt(float x);
float sin(float x);
float cos(float x);

}  // namespace tessera::mufu
