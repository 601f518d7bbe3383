// exp, exp2 and quotients of f32 where the exact profile computes: the bits of sim/ops without a
// branch per element, which would keep one element waiting for the other.
//
// a / b, where many a share one b: a times 1 / b in f64, within 2^-52 of the quotient. Quotients of
// f32 that are not midpoints of two floats, subnormal ones included, lie 2^-49 or more from them
// (Figueroa, "When is double rounding innocuous?", SIGNUM 30(3), 1995), and midpoints come from
// divisors that are powers of 2, whose reciprocals are exact. So the rounding is that of a / b.
//
// e^r 2^k with |r| <= ln(2) / 2, a polynomial of degree 9 in f64 through the Chebyshev points of
// the relative error, which stays under 2^-45.6. Where the value lies within 2^-43 of a midpoint of
// two floats, or the result is not a normal float, the op itself decides.
#pragma once

#include "sim/ops/exp.hpp"
#include "sim/ops/exp2.hpp"

namespace tessera::cuda {

/// What is added to a f64 to round it to an integer, which its low bits then hold.
inline constexpr double kRoundToInteger = 0x1.8p52;

/// The polynomial, highest power first. In constant memory, where f64 operations read it: as
/// literals every one costs two moves.
static __constant__ double kExpCoefficients[] = {
    0x1.72e1150d0c9b6p-19, 0x1.a17e031985654p-16, 0x1.a01994bd214e7p-13, 0x1.6c162ba880942p-10,
    0x1.11111123c1f47p-7,  0x1.55555588c026cp-5,  0x1.5555555550d79p-3,  0x1.ffffffffe74a0p-2,
    0x1.0000000000006p+0,  0x1.000000000003dp+0};
static __constant__ double kExpReduction[] = {0x1.71547652b82fep0, kRoundToInteger,
                                              -0x1.62e42fefa39efp-1, 0x1.62e42fefa39efp-1};

/// Out of line: rare, and long.
template <class Op>
__device__ __noinline__ float decided_by_op(float x) {
  return Op::apply(x);
}

/// e^r 2^k, `shifted` being k + kRoundToInteger, to f32; sets `sure` unless it may be another
/// float.
__device__ __forceinline__ float exp_of_parts(double shifted, double r, bool& sure) {
  double e = kExpCoefficients[0];
#pragma unroll
  for (int i = 1; i < 10; ++i) e = std::fma(e, r, kExpCoefficients[i]);
  const int low = __double2loint(e);
  const double scaled = __hiloint2double(__double2hiint(e) + (__double2loint(shifted) << 20), low);
  // A float leaves 29 of f64's bits off: half of them is the midpoint.
  constexpr int kMidpoint = 1 << 28;
  constexpr int kNear = 1 << 9;
  const int from_midpoint = (low & ((1 << 29) - 1)) - kMidpoint;
  sure = from_midpoint > kNear || from_midpoint < -kNear;
  return static_cast<float>(scaled);
}

/// An op's result without a branch, so that many are under way at once; `sure` becomes false if the
/// op itself has to decide.
template <class Op>
struct Attempt {};
template <>
struct Attempt<Exp> {
  static __device__ __forceinline__ float apply(float x, bool& sure) {
    const double v = x;
    const double shifted = std::fma(v, kExpReduction[0], kExpReduction[1]);
    const double r = std::fma(shifted - kExpReduction[1], kExpReduction[2], v);
    bool far;
    const float y = exp_of_parts(shifted, r, far);
    const bool gone = x <= -104.f;
    sure = sure && (gone || (far && x > -87.3f && x < 88.7f));
    return gone ? 0.f : y;
  }
};
template <>
struct Attempt<Exp2> {
  static __device__ __forceinline__ float apply(float x, bool& sure) {
    const double v = x;
    const double shifted = v + kExpReduction[1];
    const double r = (v - (shifted - kExpReduction[1])) * kExpReduction[3];
    bool far;
    const float y = exp_of_parts(shifted, r, far);
    const bool gone = x <= -150.5f;
    sure = sure && (gone || (far && x > -125.9f && x < 127.9f));
    return gone ? 0.f : y;
  }
};
/// a / b from 1 / b.
__device__ __forceinline__ float quotient(float a, double reciprocal) {
  return static_cast<float>(static_cast<double>(a) * reciprocal);
}

template <class Op>
concept Attempted = requires(float x, bool sure) {
  Attempt<Op>::apply(x, sure);
};

}  // namespace tessera::cuda
