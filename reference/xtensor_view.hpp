// Tensors as xtensor containers, inside reference/ alone. Built as C++17: xtensor 0.24.3 evaluates
// some lazy reducers wrongly under g++ 12 in C++20 (tests/reference/xtensor_test.cpp has the
// expression).
#pragma once

#include <algorithm>
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xsort.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>

#include "reference/tensor.hpp"

namespace tessera::reference {

using Matrix = xt::xtensor<double, 2>;

inline xt::xarray<double> to_xarray(const Tensor& t) { return xt::adapt(t.values, t.shape); }
inline Matrix to_matrix(const Tensor& t) {
  return xt::adapt(t.values, std::vector<std::size_t>{t.shape[0], t.shape[1]});
}
template <class X>
Tensor to_tensor(const X& x) {
  Tensor t;
  t.shape.assign(x.shape().begin(), x.shape().end());
  t.values.assign(x.begin(), x.end());
  return t;
}

/// a @ b: each row is a sum of rows of b. Rows go in groups, so that one pass over b serves
/// several.
inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix o = xt::zeros<double>({a.shape(0), b.shape(1)});
  const std::size_t rows = a.shape(0);
  const std::size_t cols = b.shape(1);
  constexpr std::size_t kGroup = 8;
#pragma omp parallel for schedule(dynamic)
  for (std::size_t first = 0; first < rows; first += kGroup) {
    for (std::size_t k = 0; k < a.shape(1); ++k) {
      const double* right = b.data() + k * cols;
      for (std::size_t i = first; i < std::min(first + kGroup, rows); ++i) {
        const double left = a(i, k);
        double* row = o.data() + i * cols;
        for (std::size_t j = 0; j < cols; ++j) row[j] += left * right[j];
      }
    }
  }
  return o;
}

/// The bound of an f32 sum of products of length n: gamma_n sum_k |a_ik| |b_kj|, and that sum is at
/// most |a_i| |b_j| in the 2-norm (Cauchy-Schwarz).
inline Matrix product_error(const Matrix& a, const Matrix& b) {
  const double n = static_cast<double>(a.shape(1)) + 1;
  const double gamma = n * kU32 / (1 - n * kU32);
  const xt::xtensor<double, 1> left = xt::sqrt(xt::sum(xt::square(a), {1}));
  const xt::xtensor<double, 1> right = xt::sqrt(xt::sum(xt::square(b), {0}));
  Matrix bound = xt::zeros<double>({a.shape(0), b.shape(1)});
  for (std::size_t i = 0; i < a.shape(0); ++i) {
    for (std::size_t j = 0; j < b.shape(1); ++j) bound(i, j) = gamma * left(i) * right(j);
  }
  return bound;
}

}  // namespace tessera::reference
