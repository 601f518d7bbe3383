// A matrix for oracles that are loops anyway: xtensor's headers take seconds of a compiler.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "reference/tensor.hpp"

namespace tessera::reference {

struct PlainMatrix {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<double> values;  ///< row-major

  PlainMatrix() = default;
  PlainMatrix(std::size_t r, std::size_t c) : rows(r), cols(c), values(r * c) {}
  PlainMatrix(std::size_t r, std::size_t c, const double* from)
      : rows(r), cols(c), values(from, from + r * c) {}
  double& operator()(std::size_t r, std::size_t c) { return values[r * cols + c]; }
  double operator()(std::size_t r, std::size_t c) const { return values[r * cols + c]; }
};

inline PlainMatrix transposed(const PlainMatrix& a) {
  PlainMatrix t(a.cols, a.rows);
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t c = 0; c < a.cols; ++c) t(c, r) = a(r, c);
  }
  return t;
}

/// a @ b.
inline PlainMatrix product(const PlainMatrix& a, const PlainMatrix& b) {
  PlainMatrix o(a.rows, b.cols);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < a.cols; ++k) {
      for (std::size_t j = 0; j < b.cols; ++j) o(i, j) += a(i, k) * b(k, j);
    }
  }
  return o;
}

}  // namespace tessera::reference
