// Oracles of quantised_matmul: 4-bit codes, eight rows of a column in a word, the lowest bits
// first, or bytes.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

/// Weights made of codes, (rows, n), and how far those that a kernel multiplies may be from them.
/// `size`: of what it sums, which is larger than a weight where a zero point is taken from sums.
struct Quantised {
  Tensor value;
  Tensor error;
  Tensor size;
};
/// (code - zero) scale, where words are (ceil(k / 8), n) and scale and zero (groups, 1, n), one for
/// `group` rows. `roundoff`: of the type that weights are rounded to.
Quantised affine_weights(const Tensor& words, const Tensor& scale, const Tensor& zero,
                         std::size_t group, double roundoff);
/// level[code] scale, of the 16 levels of NF4 (Dettmers et al., arXiv:2305.14314, appendix E).
Quantised nf4_weights(const Tensor& words, const Tensor& scale, std::size_t group, double roundoff);
/// byte scale, of bytes (k, n).
Quantised int8_weights(const Tensor& bytes, const Tensor& scale, std::size_t group,
                       double roundoff);
/// MXFP4: e2m1[code] 2^(exponent - 127), of exponents (groups, 1, n), 255: NaN.
Quantised mxfp4_weights(const Tensor& words, const Tensor& exponent, std::size_t group,
                        double roundoff);
/// NVFP4: e2m1[code] scale8 global, of e4m3 scales (groups, 1, n) and one number.
Quantised nvfp4_weights(const Tensor& words, const Tensor& scale8, const Tensor& global,
                        std::size_t group, double roundoff);
/// MXFP8: e4m3 (k, n) times 2^(exponent - 127).
Quantised mxfp8_weights(const Tensor& bytes, const Tensor& exponent, std::size_t group,
                        double roundoff);
/// NVFP8: e4m3 (k, n) times scale8 global.
Quantised nvfp8_weights(const Tensor& bytes, const Tensor& scale8, const Tensor& global,
                        std::size_t group, double roundoff);
/// x @ w, by as many rows of w as x has columns; in so many parts along them, (splits, m, n), each
/// of the rows [begin[s], begin[s + 1]), if there is more than one.
Expected quantised_matmul(const Tensor& x, const Quantised& w,
                          const std::vector<std::size_t>& begin);

}  // namespace tessera::reference
