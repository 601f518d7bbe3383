// Tensors as xtensor containers, inside reference/ alone. Built as C++17: xtensor 0.24.3 evaluates
// some lazy reducers wrongly under g++ 12 in C++20 (tests/reference/xtensor_test.cpp has the
// expression).
#pragma once

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>
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

/// a @ b, row by row.
inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix o = xt::zeros<double>({a.shape(0), b.shape(1)});
  for (std::size_t i = 0; i < a.shape(0); ++i) {
    auto row = xt::view(o, i);
    for (std::size_t k = 0; k < a.shape(1); ++k) xt::noalias(row) += a(i, k) * xt::view(b, k);
  }
  return o;
}

/// The bound of an f32 sum of products of length `terms`: gamma_n times the sum of magnitudes.
inline Matrix product_error(const Matrix& a, const Matrix& b) {
  const double n = static_cast<double>(a.shape(1)) + 1;
  const Matrix magnitude = product(Matrix(xt::abs(a)), Matrix(xt::abs(b)));
  return Matrix(magnitude * (n * kU32 / (1 - n * kU32)));
}

}  // namespace tessera::reference
