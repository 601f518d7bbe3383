// Bodies over whole rows, as a user writes them: norms, softmax, and their gradients with respect
// to x. bench/peers/row_kernels.py builds, runs and compares them.
#pragma once

#include <cmath>
#include <vector>

#include "cuda/launch.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/rsqrt.hpp"

namespace tessera::rows {

constexpr TESSERA_FN float eps() { return 1e-5f; }
using Row = std::vector<double>;
inline double sum(const Row& x) {
  double s = 0;
  for (const double v : x) s += v;
  return s;
}

/// Each body's operands: x, dy where it is a gradient, then w and b where it has them; and its
/// oracle of one row, in f64.
struct Softmax {
  static constexpr const char* kName = "softmax";
  static constexpr bool kGrad = false;
  static constexpr int kWeights = 0;
  TESSERA_FN static auto of(auto, auto x) {
    const auto e = exp(x - row_max(x));
    return e / row_sum(e);
  }
  static Row oracle(const Row& x) {
    Row y = x;
    double most = -INFINITY;
    for (const double v : x) most = std::max(most, v);
    for (double& v : y) v = std::exp(v - most);
    const double s = sum(y);
    for (double& v : y) v /= s;
    return y;
  }
};
struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  static constexpr bool kGrad = false;
  static constexpr int kWeights = 1;
  TESSERA_FN static auto of(auto n, auto x, auto w) {
    return x * rsqrt(row_sum(x * x) * (1.f / n) + eps()) * w;
  }
  static Row oracle(const Row& x, const Row& w) {
    double s = 0;
    for (const double v : x) s += v * v;
    Row y = x;
    for (std::size_t c = 0; c < x.size(); ++c)
      y[c] *= w[c] / std::sqrt(s / static_cast<double>(x.size()) + eps());
    return y;
  }
};
struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  static constexpr bool kGrad = false;
  static constexpr int kWeights = 2;
  TESSERA_FN static auto of(auto n, auto x, auto w, auto b) {
    const auto d = x - row_sum(x) * (1.f / n);
    return d * rsqrt(row_sum(d * d) * (1.f / n) + eps()) * w + b;
  }
  static Row oracle(const Row& x, const Row& w, const Row& b) {
    const auto n = static_cast<double>(x.size());
    const double mean = sum(x) / n;
    double s = 0;
    for (const double v : x) s += (v - mean) * (v - mean);
    Row y = x;
    for (std::size_t c = 0; c < x.size(); ++c)
      y[c] = (x[c] - mean) / std::sqrt(s / n + eps()) * w[c] + b[c];
    return y;
  }
};
struct SoftmaxGrad {  // of y, in the place of x
  static constexpr const char* kName = "softmax_grad";
  static constexpr bool kGrad = true;
  static constexpr int kWeights = 0;
  TESSERA_FN static auto of(auto, auto y, auto dy) { return y * (dy - row_sum(y * dy)); }
  static Row oracle(const Row& y, const Row& dy) {
    double s = 0;
    for (std::size_t c = 0; c < y.size(); ++c) s += y[c] * dy[c];
    Row dx = y;
    for (std::size_t c = 0; c < y.size(); ++c) dx[c] = y[c] * (dy[c] - s);
    return dx;
  }
};
struct RmsNormGrad {
  static constexpr const char* kName = "rms_norm_grad";
  static constexpr bool kGrad = true;
  static constexpr int kWeights = 1;
  TESSERA_FN static auto of(auto n, auto x, auto dy, auto w) {
    const auto r = rsqrt(row_sum(x * x) * (1.f / n) + eps());
    const auto g = dy * w;
    return r * (g - x * (r * r * row_sum(g * x) * (1.f / n)));
  }
  static Row oracle(const Row& x, const Row& dy, const Row& w) {
    const auto n = static_cast<double>(x.size());
    double s = 0;
    double p = 0;
    for (std::size_t c = 0; c < x.size(); ++c) {
      s += x[c] * x[c];
      p += dy[c] * w[c] * x[c];
    }
    const double r = 1 / std::sqrt(s / n + eps());
    Row dx = x;
    for (std::size_t c = 0; c < x.size(); ++c) dx[c] = r * (dy[c] * w[c] - x[c] * r * r * p / n);
    return dx;
  }
};
struct LayerNormGrad {
  static constexpr const char* kName = "layer_norm_grad";
  static constexpr bool kGrad = true;
  static constexpr int kWeights = 1;
  TESSERA_FN static auto of(auto n, auto x, auto dy, auto w) {
    const auto d = x - row_sum(x) * (1.f / n);
    const auto r = rsqrt(row_sum(d * d) * (1.f / n) + eps());
    const auto g = dy * w;
    const auto mean = row_sum(g) * (1.f / n);
    const auto along = r * r * row_sum(g * d) * (1.f / n);
    return r * (g - mean - d * along);
  }
  static Row oracle(const Row& x, const Row& dy, const Row& w) {
    const auto n = static_cast<double>(x.size());
    const double mean = sum(x) / n;
    double s = 0;
    double g = 0;
    double p = 0;
    for (std::size_t c = 0; c < x.size(); ++c) {
      s += (x[c] - mean) * (x[c] - mean);
      g += dy[c] * w[c];
      p += dy[c] * w[c] * (x[c] - mean);
    }
    const double r = 1 / std::sqrt(s / n + eps());
    Row dx = x;
    for (std::size_t c = 0; c < x.size(); ++c)
      dx[c] = r * (dy[c] * w[c] - g / n - (x[c] - mean) * r * r * p / n);
    return dx;
  }
};

/// A body's kernel.
template <class Body, class T>
struct RowKernel {
  static constexpr KernelInfo info{.name = Body::kName, .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"));
  int m = 0;
  int n = 0;
  static constexpr auto sizes =
      params(size("m", &RowKernel::m, "rows"), size("n", &RowKernel::n, "columns"));

  TESSERA_FN auto spec(auto bm, auto bn) const {
    auto rows = [](auto i) { return at(i, 0); };
    auto one = [](auto) { return at(0, 0); };
    const auto g = grid(parallel(ceil_div(m, bm)).as("i"));
    const auto x = in<T>("x", shape(m, n), block(bm, bn), rows);
    const auto dy = in<T>("dy", shape(m, n), block(bm, bn), rows);
    const auto w = in<T>("w", shape(1, n), block(Int<1>{}, bn), one);
    const auto b = in<T>("b", shape(1, n), block(Int<1>{}, bn), one);
    const auto y = out<T>("y", shape(m, n), block(bm, bn), rows);
    if constexpr (Body::kGrad && Body::kWeights == 1)
      return tessera::spec(g, x, dy, w, y);
    else if constexpr (Body::kGrad)
      return tessera::spec(g, x, dy, y);
    else if constexpr (Body::kWeights == 2)
      return tessera::spec(g, x, w, b, y);
    else if constexpr (Body::kWeights == 1)
      return tessera::spec(g, x, w, y);
    else
      return tessera::spec(g, x, y);
  }
  TESSERA_FN void operator()(auto&, auto x, auto y) const {
    *y = cast<T>(Body::of(static_cast<float>(n), cast<float>(*x)));
  }
  TESSERA_FN void operator()(auto&, auto x, auto v, auto y) const {
    *y = cast<T>(Body::of(static_cast<float>(n), cast<float>(*x), cast<float>(*v)));
  }
  TESSERA_FN void operator()(auto&, auto x, auto v, auto w, auto y) const {
    *y =
        cast<T>(Body::of(static_cast<float>(n), cast<float>(*x), cast<float>(*v), cast<float>(*w)));
  }
};

using Bodies = std::tuple<Softmax, RmsNorm, LayerNorm, SoftmaxGrad, RmsNormGrad, LayerNormGrad>;

/// Everything that a source adds.
struct RowInstance {
  const char* body;
  DType dtype;
  int bm;
  int n;
  std::vector<const char*> inputs;  ///< by name
  cuda::Launched (*run)(const cuda::Launch&);
  Row (*oracle)(const std::vector<Row>&);
};
std::vector<RowInstance>& instances();

template <class Body>
Row oracle_of(const std::vector<Row>& in) {
  constexpr std::size_t kInputs = 1 + (Body::kGrad ? 1 : 0) + Body::kWeights;
  return [&]<std::size_t... kI>(std::index_sequence<kI...>) { return Body::oracle(in[kI]...); }
  (std::make_index_sequence<kInputs>{});
}
template <class T, int kRows, int kCols>
bool add() {
  [&]<std::size_t... kI>(std::index_sequence<kI...>) {
    (
        [&] {
          using Body = std::tuple_element_t<kI, Bodies>;
          std::vector<const char*> names{"x"};
          if (Body::kGrad) names.push_back("dy");
          if (Body::kWeights > 0) names.push_back("w");
          if (Body::kWeights > 1) names.push_back("b");
          instances().push_back({Body::kName, kDTypeOf<T>, kRows, kCols, names,
                                 cuda::launch<RowKernel<Body, T>, kRows, kCols>, oracle_of<Body>});
        }(),
        ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Bodies>>{});
  return true;
}

}  // namespace tessera::rows
