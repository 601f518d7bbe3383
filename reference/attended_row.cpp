#include "reference/attended_row.hpp"

#include <algorithm>
#include <cmath>

#include "reference/tensor.hpp"

namespace tessera::reference {

AttendedRow attended_row(const std::vector<SeenKey>& keys, std::size_t d,
                         const AttendOptions& options, double* o, double* error) {
  for (std::size_t c = 0; c < d; ++c) o[c] = error[c] = 0;
  if (keys.empty()) return {-INFINITY, 0};
  double top = -INFINITY;
  double bottom = INFINITY;
  for (const SeenKey& key : keys) {
    top = std::max(top, key.s);
    bottom = std::min(bottom, key.s);
  }
  const double largest = std::max(std::abs(top), std::abs(bottom));
  // An exponent is a product and a fused sum, off by the rounding of the product, of a maximum so
  // far, and once more in each later step's rescaling, which is an exp2 (2 units) and a product.
  const double rescalings = options.steps * (largest + 4) + 2 * (top - bottom) + 16;
  const auto count = static_cast<double>(keys.size());
  const double rounded = options.probabilities_in_bf16 ? kUBf16 : 0;
  double sum = 0;
  double sum_error = 0;
  std::vector<double> of_p;
  for (const SeenKey& key : keys) {
    const double p = std::exp(key.s - top);
    const double relative = std::expm1(key.error + kU32 * (top - key.s + rescalings));
    of_p.push_back(relative);
    sum += p;
    sum_error += p * relative;
  }
  for (std::size_t j = 0; j < keys.size(); ++j) {
    if (keys[j].value == nullptr) continue;
    const double p = std::exp(keys[j].s - top);
    const double relative = of_p[j] + (count + 2 * options.steps + 8) * kU32 + rounded;
    for (std::size_t c = 0; c < d; ++c) {
      const double off = keys[j].value_error == nullptr ? 0 : keys[j].value_error[c];
      o[c] += p * keys[j].value[c];
      error[c] += p * (std::abs(keys[j].value[c]) * relative + off * (1 + relative));
    }
  }
  for (std::size_t c = 0; c < d; ++c) {
    error[c] = error[c] / sum + std::abs(o[c]) * sum_error / (sum * sum) + 0x1p-140;
    o[c] /= sum;
  }
  // That of the sum, relative to it, then of the maximum, the log, and their sum.
  const double all = top + std::log(sum);
  return {all, sum_error / sum + (count + 12) * kU32 +
                   3 * kU32 * (std::abs(top) + std::log(sum) + std::abs(all)) + 0x1p-140};
}

}  // namespace tessera::reference
