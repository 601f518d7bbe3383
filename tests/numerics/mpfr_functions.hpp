// MPFR's functions by the names of our ops.
#pragma once

#include <mpfr.h>

#include <map>
#include <string>

namespace tessera::tests {

using Unary = int (*)(mpfr_t, const mpfr_t, mpfr_rnd_t);
using Binary = int (*)(mpfr_t, const mpfr_t, const mpfr_t, mpfr_rnd_t);

/// Four roundings, at the precision of r: off by less than 2^4 of its last bits. Every other one
/// here is correctly rounded.
inline int mpfr_logistic(mpfr_t r, const mpfr_t a, mpfr_rnd_t rnd) {
  mpfr_neg(r, a, rnd);
  mpfr_exp(r, r, rnd);
  mpfr_add_ui(r, r, 1, rnd);
  return mpfr_ui_div(r, 1, r, rnd);
}
inline int mpfr_inverse_sqrt(mpfr_t r, const mpfr_t a, mpfr_rnd_t rnd) {
  // mpfr_rec_sqrt(-0) is +inf; IEEE 754 rSqrt(-0), and 1 / sqrt(-0), are -inf.
  if (mpfr_zero_p(a) != 0 && mpfr_signbit(a) != 0) {
    mpfr_set_inf(r, -1);
    return 0;
  }
  return mpfr_rec_sqrt(r, a, rnd);
}

inline const std::map<std::string, Unary> kUnary{{"cos", mpfr_cos},
                                                 {"sin", mpfr_sin},
                                                 {"erf", mpfr_erf},
                                                 {"exp", mpfr_exp},
                                                 {"exp2", mpfr_exp2},
                                                 {"expm1", mpfr_expm1},
                                                 {"log", mpfr_log},
                                                 {"log1p", mpfr_log1p},
                                                 {"log2", mpfr_log2},
                                                 {"logistic", mpfr_logistic},
                                                 {"rsqrt", mpfr_inverse_sqrt},
                                                 {"sqrt", mpfr_sqrt},
                                                 {"tanh", mpfr_tanh}};
inline const std::map<std::string, Binary> kBinary{
    {"add", mpfr_add}, {"sub", mpfr_sub}, {"mul", mpfr_mul}, {"div", mpfr_div}, {"pow", mpfr_pow}};

}  // namespace tessera::tests
