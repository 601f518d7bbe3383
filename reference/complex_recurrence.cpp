#include <cmath>
#include <complex>

#include "reference/recurrence.hpp"

namespace tessera::reference {

std::vector<Expected> complex_recurrence(const ComplexTensor& a, const ComplexTensor& b,
                                         const ComplexTensor& h0, bool reverse) {
  constexpr double kTiny = 0x1p-140;  // a few of the smallest f32 subnormals
  using Number = std::complex<double>;
  const std::size_t len = a.re.shape[1];
  const std::size_t d = a.re.shape[2];
  Expected h_re{b.re, b.re};
  Expected h_im{b.im, b.im};
  Expected last_re{h0.re, h0.re};
  Expected last_im{h0.im, h0.im};
  const double pairs = std::log2(static_cast<double>(len)) + 8;
  const double slack = 1 + 16 * kU32 * static_cast<double>(len);  // of roundings of rounded terms
  for (std::size_t column = 0; column < a.re.shape[0] * d; ++column) {
    const std::size_t n = column / d;
    Number s{h0.re.values[column], h0.im.values[column]};
    double size = std::abs(s);  // the same sums of moduli
    double error = 0;           // of a modulus, which either part's is within
    double most = 0;
    for (std::size_t i = 0; i < len; ++i) {
      const std::size_t at = (n * len + (reverse ? len - 1 - i : i)) * d + column % d;
      const Number factor{a.re.values[at], a.im.values[at]};
      const Number term{b.re.values[at], b.im.values[at]};
      s = factor * s + term;
      size = std::abs(factor) * size + std::abs(term);
      // Of either part of a product two are rounded, then their sum, then that with a term;
      // products of factors in any order, sums of as many terms as steps, or in pairs of pairs.
      error = std::abs(factor) * error + 6 * kU32 * size;
      most = (error + 6 * pairs * kU32 * size) * slack + kTiny;
      h_re.value.values[at] = s.real();
      h_im.value.values[at] = s.imag();
      h_re.error.values[at] = h_im.error.values[at] = most;
    }
    last_re.value.values[column] = s.real();
    last_im.value.values[column] = s.imag();
    last_re.error.values[column] = last_im.error.values[column] = most;
  }
  return {h_re, h_im, last_re, last_im};
}

}  // namespace tessera::reference
