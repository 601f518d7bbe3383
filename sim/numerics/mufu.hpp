// The approximate elementary functions of NVIDIA's Hopper, bit for bit: what the instructions
// ex2.approx.ftz.f32, lg2.approx.ftz.f32, rcp.approx.ftz.f32, rsqrt.approx.ftz.f32,
// sqrt.approx.ftz.f32, sin.approx.ftz.f32, cos.approx.ftz.f32 and tanh.approx.f32 of PTX give, on
// every one of the 2^32 inputs (tests/numerics/mufu_hopper.txt: recorded on an H100).
//
// The unit is the one that Oberman and Siu describe ("A High-Performance Area-Efficient
// Multifunction Interpolator", ARITH 2005): the upper bits of a significand choose a segment, whose
// three coefficients are those of a quadratic in the lower bits d. NVIDIA publishes neither the
// coefficients nor how the square of d is cut; both are known from the outputs.
//
// ex2.approx.ftz.bf16x2 and tanh.approx.bf16x2 are those of f32, each half by itself, their results
// cut to bf16 (all 2^16 inputs).
//
// Not here: the functions of f16.
#pragma once

#include "memory_model/dtype.hpp"

namespace tessera::mufu {

float ex2(float x);
float lg2(float x);
float rcp(float x);
float rsqrt(float x);
float sqrt(float x);
float sin(float x);
float cos(float x);
float tanh(float x);

bf16 ex2_bf16(bf16 x);
bf16 tanh_bf16(bf16 x);

}  // namespace tessera::mufu
