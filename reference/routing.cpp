#include "reference/routing.hpp"

#include <cmath>
#include <numeric>

#include "reference/plain_matrix.hpp"

namespace tessera::reference {

std::vector<Expected> moe_route(const Tensor& x, const Tensor& w, std::size_t top) {
  const PlainMatrix from(x.shape[0], x.shape[1], x.values.data());
  const PlainMatrix weights(w.shape[0], w.shape[1], w.values.data());
  const PlainMatrix logits = product(from, weights);
  const std::size_t rows = logits.rows;
  const std::size_t n = logits.cols;
  // Of a sum of products of length k: gamma_k sum |x| |w|.
  PlainMatrix sizes_from = from;
  PlainMatrix sizes = weights;
  for (double& v : sizes_from.values) v = std::abs(v);
  for (double& v : sizes.values) v = std::abs(v);
  const double k = (static_cast<double>(from.cols) + 1) * kU32;
  PlainMatrix off = product(sizes_from, sizes);
  for (double& v : off.values) v *= k / (1 - k);
  const Tensor like{{rows, top}, std::vector<double>(rows * top)};
  Expected gates{like, like};
  Expected experts{like, like};
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return logits(i, a) > logits(i, b); });
    double all = 0;
    double most_off = 0;  // of a logit: the j-th largest is off by no more than the worst of them
    for (std::size_t j = 0; j < top; ++j)
      all += std::exp(logits(i, order[j]) - logits(i, order[0]));
    for (std::size_t c = 0; c < n; ++c) most_off = std::max(most_off, off(i, c));
    // Two that are nearer than they may be off, or are equal without an error, may change places.
    const auto apart = [&](std::size_t j) {
      return j == 0 || j == n ||
             logits(i, order[j - 1]) - logits(i, order[j]) >
                 off(i, order[j - 1]) + off(i, order[j]);
    };
    for (std::size_t j = 0; j < top; ++j) {
      const std::size_t at = i * top + j;
      const double below = logits(i, order[0]) - logits(i, order[j]);
      gates.value.values[at] = std::exp(-below) / all;
      gates.error.values[at] =
          gates.value.values[at] *
          std::expm1(4 * most_off + kU32 * (16 + 2 * static_cast<double>(top) + 2 * below));
      experts.value.values[at] = static_cast<double>(order[j]);
      experts.error.values[at] = apart(j) && apart(j + 1) ? 0 : static_cast<double>(n);
    }
  }
  return {gates, experts};
}

}  // namespace tessera::reference
