#include "reference/matmul.hpp"

#include <cmath>

#include "reference/rows.hpp"
#include "reference/xtensor_view.hpp"

namespace tessera::reference {

namespace {
Expected product_of(const Matrix& a, const Matrix& b) {
  return {to_tensor(product(a, b)), to_tensor(product_error(a, b))};
}
/// Matrix g of an array of them.
Tensor matrix_of(const Tensor& of, std::size_t g) {
  const std::size_t each = of.shape[1] * of.shape[2];
  const auto first = of.values.begin() + static_cast<std::ptrdiff_t>(g * each);
  return {{of.shape[1], of.shape[2]}, {first, first + static_cast<std::ptrdiff_t>(each)}};
}
Matrix masked(const Tensor& dy, const Tensor& y) {
  return Matrix(xt::where(to_matrix(y) > 0., to_matrix(dy), 0.));
}
}  // namespace

Expected matmul(const Tensor& x, const Tensor& y) { return product_of(to_matrix(x), to_matrix(y)); }

Expected matmul_relu(const Tensor& x, const Tensor& w) {
  Expected e = matmul(x, w);
  for (double& v : e.value.values) v = v > 0 ? v : 0;  // ReLU does not enlarge an error
  return e;
}

Expected grad_x(const Tensor& dy, const Tensor& y, const Tensor& w) {
  return product_of(masked(dy, y), Matrix(xt::transpose(to_matrix(w))));
}

Expected grad_w(const Tensor& x, const Tensor& dy, const Tensor& y) {
  return product_of(Matrix(xt::transpose(to_matrix(x))), masked(dy, y));
}

Expected grouped_matmul(const Tensor& x, const Tensor& w, const std::vector<int>& offsets,
                        Existing existing, const AfterProduct* after) {
  const Matrix rows = to_matrix(x);
  const xt::xarray<double> weights = to_xarray(w);
  Matrix value = xt::zeros<double>({rows.shape(0), weights.shape(2)});
  Matrix error = value;
  if (existing.array != nullptr) value = to_matrix(*existing.array);
  for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
    const int first = offsets[g];
    const int end = offsets[g + 1];
    const Matrix part = xt::view(rows, xt::range(first, end));
    const Matrix weight = xt::view(weights, g);
    Expected result = product_of(part, weight);
    if (after != nullptr) {
      AfterProduct of_group = *after;
      const Tensor v = of_group.v != nullptr ? matrix_of(*of_group.v, g) : Tensor{};
      const Tensor bias = of_group.bias != nullptr ? matrix_of(*of_group.bias, g) : Tensor{};
      if (of_group.v != nullptr) of_group.v = &v;
      if (of_group.bias != nullptr) of_group.bias = &bias;
      result = matmul_epilogue(to_tensor(part), to_tensor(weight), of_group);
    }
    Matrix o = to_matrix(result.value);
    Matrix off = to_matrix(result.error);
    if (existing.added) {
      o += xt::view(value, xt::range(first, end));
      off += kU32 * (xt::abs(o) + off);
    }
    xt::view(value, xt::range(first, end)) = o;
    xt::view(error, xt::range(first, end)) = off;
  }
  return {to_tensor(value), to_tensor(error)};
}

Expected tgmm(const Tensor& x, const Tensor& y, const std::vector<int>& offsets,
              const Tensor* existing) {
  const Matrix left = to_matrix(x);
  const Matrix right = to_matrix(y);
  const std::size_t groups = offsets.size() - 1;
  xt::xarray<double> value = xt::zeros<double>({groups, left.shape(1), right.shape(1)});
  xt::xarray<double> error = value;
  for (std::size_t g = 0; g < groups; ++g) {
    const Matrix turned =
        xt::transpose(Matrix(xt::view(left, xt::range(offsets[g], offsets[g + 1]))));
    const Matrix part = xt::view(right, xt::range(offsets[g], offsets[g + 1]));
    xt::view(value, g) = product(turned, part);
    xt::view(error, g) = product_error(turned, part);
  }
  if (existing != nullptr) {
    value += to_xarray(*existing);
    error += kU32 * (xt::abs(value) + error);
  }
  return {to_tensor(value), to_tensor(error)};
}

Expected split_matmul(const Tensor& x, const Tensor& y, const std::vector<int>& begin) {
  const Matrix left = to_matrix(x);
  const Matrix right = to_matrix(y);
  Expected parts{{{begin.size() - 1, left.shape(0), right.shape(1)}, {}}, {}};
  parts.error.shape = parts.value.shape;
  for (std::size_t s = 0; s + 1 < begin.size(); ++s) {
    const Matrix columns = xt::view(left, xt::all(), xt::range(begin[s], begin[s + 1]));
    const Matrix rows = xt::view(right, xt::range(begin[s], begin[s + 1]), xt::all());
    const Expected part = product_of(columns, rows);
    parts.value.values.insert(parts.value.values.end(), part.value.values.begin(),
                              part.value.values.end());
    parts.error.values.insert(parts.error.values.end(), part.error.values.begin(),
                              part.error.values.end());
  }
  return parts;
}

Expected split_sum(const Tensor& parts) {
  const std::size_t each = parts.shape[1] * parts.shape[2];
  const double gamma = static_cast<double>(parts.shape[0]) * kU32;
  Expected sum{{{parts.shape[1], parts.shape[2]}, std::vector<double>(each)}, {}};
  sum.error = sum.value;
  for (std::size_t i = 0; i < parts.values.size(); ++i) {
    sum.value.values[i % each] += parts.values[i];
    sum.error.values[i % each] += std::abs(parts.values[i]) * gamma / (1 - gamma);
  }
  return sum;
}

}  // namespace tessera::reference
