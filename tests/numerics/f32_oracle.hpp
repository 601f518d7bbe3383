// MPFR as f32 is: results of 24 bits, fewer where they are subnormal, rounded to nearest even.
#pragma once

#include <mpfr.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/numerics/mpfr_functions.hpp"

namespace tessera::tests {

/// One bit pattern for every NaN.
inline std::uint32_t bits_of(float v) {
  constexpr std::uint32_t kNan = 0x7fc00000;
  return std::isnan(v) ? kNan : std::bit_cast<std::uint32_t>(v);
}

/// Not for two threads: each makes its own.
class F32Oracle {
 public:
  F32Oracle() {
    narrow();
    mpfr_inits2(24, x_, y_, result_, nullptr);
    mpfr_init2(wide_, 64);
  }
  F32Oracle(const F32Oracle&) = delete;
  F32Oracle& operator=(const F32Oracle&) = delete;
  ~F32Oracle() { mpfr_clears(x_, y_, result_, wide_, nullptr); }

  float operator()(Unary function, float a) {
    mpfr_set_flt(x_, a, MPFR_RNDN);
    if (function == mpfr_logistic) return logistic(a);
    return as_float(function(result_, x_, MPFR_RNDN));
  }
  float operator()(Binary function, float a, float b) {
    mpfr_set_flt(x_, a, MPFR_RNDN);
    mpfr_set_flt(y_, b, MPFR_RNDN);
    return as_float(function(result_, x_, y_, MPFR_RNDN));
  }

 private:
  static void narrow() {
    mpfr_set_emin(-148);  // 2^-149 is 0.1 (binary) times 2^-148
    mpfr_set_emax(128);
  }
  float as_float(int inexact) {
    mpfr_subnormalize(result_, inexact, MPFR_RNDN);
    return mpfr_get_flt(result_, MPFR_RNDN);
  }

  /// Not one of MPFR's own: more bits until they settle the rounding.
  float logistic(float a) {
    if (std::isnan(a)) return a;
    // Settled: e^-a under 2^-25 of 1; a quarter of it under a quarter of the last bit of 1/2; the
    // result under half of 2^-149.
    if (a > 18) return 1;
    if (std::abs(a) < 0x1p-26f) return 0.5f;
    if (a < -104) return 0;
    mpfr_set_emin(mpfr_get_emin_min());
    mpfr_set_emax(mpfr_get_emax_max());
    for (mpfr_prec_t bits = 64;; bits *= 2) {
      mpfr_set_prec(wide_, bits);
      mpfr_logistic(wide_, x_, MPFR_RNDN);
      if (mpfr_can_round(wide_, bits - 4, MPFR_RNDN, MPFR_RNDZ, 25) != 0) break;
    }
    narrow();
    const int inexact = mpfr_set(result_, wide_, MPFR_RNDN);
    return as_float(mpfr_check_range(result_, inexact, MPFR_RNDN));
  }

  mpfr_t x_;
  mpfr_t y_;
  mpfr_t result_;
  mpfr_t wide_;
};

}  // namespace tessera::tests
