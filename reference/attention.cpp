#include "reference/attention.hpp"

#include <algorithm>
#include <cmath>

#include "reference/xtensor_view.hpp"

namespace tessera::reference {

namespace {

struct Score {
  std::size_t key;
  double s;
  double error;
  double weight = 0;  ///< exp(s - the row's largest), dropped or not
};

}  // namespace

bool sees(const AttentionMask& mask, std::size_t b, int i, int j, std::size_t q_len,
          std::size_t kv_len) {
  if (j < mask.first_key || j >= mask.end_key) return false;
  if (mask.dense != nullptr) return sees(*mask.dense, i, j, kv_len);
  if (j >= mask.kv_lengths[b]) return false;
  if (mask.causal && j > i) return false;
  if (mask.window > 0 && j <= i - mask.window) return false;
  if (mask.window > 0 && !mask.causal && j >= i + mask.window) return false;
  if (mask.q_segments.empty()) return true;
  return mask.q_segments[b * q_len + static_cast<std::size_t>(i)] ==
         mask.kv_segments[b * kv_len + static_cast<std::size_t>(j)];
}

std::size_t bias_place(const Tensor& bias, std::size_t b, std::size_t h, std::size_t i,
                       std::size_t j) {
  const std::size_t plane = b % bias.shape[0] * bias.shape[1] + h % bias.shape[1];
  return (plane * bias.shape[2] + i) * bias.shape[3] + j;
}

Expected attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask) {
  return attention_with_lse(q, k, v, mask).front();
}

std::vector<Expected> attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionMask& mask) {
  const std::size_t batch = q.shape[0];
  const std::size_t heads = q.shape[1];
  const std::size_t q_len = q.shape[2];
  const std::size_t d = q.shape[3];
  const std::size_t kv_heads = k.shape[1];
  const std::size_t kv_len = k.shape[2];
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const auto depth = static_cast<double>(d);
  Expected e;
  e.value.shape = e.error.shape = q.shape;
  e.value.values.assign(q.values.size(), 0);
  e.error.values.assign(q.values.size(), 0);
  const Tensor rows{{batch, heads, q_len, 1}, std::vector<double>(batch * heads * q_len)};
  Expected lse{rows, rows};
#pragma omp parallel for schedule(dynamic, 16)
  for (std::size_t row = 0; row < batch * heads * q_len; ++row) {
    const std::size_t i = row % q_len;
    const std::size_t h = row / q_len % heads;
    const std::size_t b = row / q_len / heads;
    const std::size_t kv_head = b * kv_heads + h / (heads / kv_heads);
    const double* query = q.values.data() + row * d;
    std::vector<Score> scores;
    double top = -INFINITY;
    double bottom = INFINITY;
    for (std::size_t j = 0; j < kv_len; ++j) {
      if (!sees(mask, b, static_cast<int>(i), static_cast<int>(j), q_len, kv_len)) continue;
      const double* key = k.values.data() + (kv_head * kv_len + j) * d;
      double s = 0;
      double magnitude = 0;
      for (std::size_t c = 0; c < d; ++c) {
        s += query[c] * key[c];
        magnitude += std::abs(query[c] * key[c]);
      }
      s *= scale;
      double error = (depth + 1) * kU32 * magnitude * scale + 3 * kU32 * std::abs(s);
      if (mask.softcap > 0) {
        s = mask.softcap * std::tanh(s / mask.softcap);
        error += 4 * kU32 * std::abs(s);  // tanh does not enlarge an error
      }
      if (mask.bias != nullptr) {
        const double added = mask.bias->values[bias_place(*mask.bias, b, h, i, j)];
        s += added;
        error += kU32 * (4 * std::abs(added) + 5 * std::abs(s));
      }
      scores.push_back({j, s, error});
      top = std::max(top, s);
      bottom = std::min(bottom, s);
    }
    if (mask.sinks != nullptr) {  // behind the keys, and of no value
      const double sink = mask.sinks->values[h];
      scores.push_back({kv_len, sink, 4 * kU32 * std::abs(sink)});
      top = std::max(top, sink);
      bottom = std::min(bottom, sink);
    }
    if (scores.empty()) {
      lse.value.values[row] = -INFINITY;
      continue;
    }
    // Relative error of p_j: that of its score, the rounding of the shift, and the rescalings.
    const auto keys = static_cast<double>(scores.size());
    const double rescale = 2 * (top - bottom) + keys / 4 + 16;
    double sum = 0;
    double sum_error = 0;
    for (auto& x : scores) {
      const double p = std::exp(x.s - top);
      x.error = std::expm1(x.error + kU32 * (top - x.s + rescale));
      sum += p;
      sum_error += p * x.error;
      if (x.key != kv_len) x.weight = p * mask.dropout.factor(row / q_len, i, x.key);
    }
    const double all = top + std::log(sum);
    lse.value.values[row] = all;
    // That of the sum, relative to it, then of the maximum, the log, and their sum.
    lse.error.values[row] = sum_error / sum + (keys + 12) * kU32 +
                            3 * kU32 * (std::abs(top) + std::log(sum) + std::abs(all)) + 0x1p-140;
    double* value = e.value.values.data() + row * d;
    double* error = e.error.values.data() + row * d;
    for (std::size_t c = 0; c < d; ++c) {
      double o = 0;
      double o_error = 0;
      for (const auto& x : scores) {
        if (x.key == kv_len) continue;
        // Where weights are dropped, those that are kept are multiplied once more.
        const double pv = x.weight * v.values[(kv_head * kv_len + x.key) * d + c];
        o += pv;
        o_error += std::abs(pv) * (x.error + (keys + (mask.dropout.rate > 0 ? 14 : 8)) * kU32 +
                                   (mask.probabilities_in_bf16 ? kUBf16 : 0));
      }
      value[c] = o / sum;
      error[c] = o_error / sum + std::abs(o) * sum_error / (sum * sum) + 0x1p-140;
    }
  }
  return {e, lse};
}

}  // namespace tessera::reference
