#include <cmath>

#include "reference/attention.hpp"
#include "reference/xtensor_view.hpp"

namespace tessera::reference {

std::vector<Expected> attention_grad(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& dout, const Tensor& lse, const Tensor& delta,
                                     const AttentionMask& mask) {
  const std::size_t heads = q.shape[1];
  const std::size_t q_len = q.shape[2];
  const std::size_t d = q.shape[3];
  const std::size_t kv_heads = k.shape[1];
  const std::size_t group = heads / kv_heads;
  const std::size_t kv_len = k.shape[2];
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const double depth = static_cast<double>(d) + 1;
  const double rounded = mask.probabilities_in_bf16 ? kUBf16 : 0;
  const auto zeros = [](const Tensor& like) {
    Tensor t = like;
    std::fill(t.values.begin(), t.values.end(), 0.);
    return t;
  };
  Expected dq{zeros(q), zeros(q)};
  Expected dk{zeros(k), zeros(k)};
  Expected dv{zeros(v), zeros(v)};
  Expected dbias;
  if (mask.bias != nullptr) dbias = {zeros(*mask.bias), zeros(*mask.bias)};
  // Sums of products in any order: of all queries of a group, or of all keys.
  const double of_queries = static_cast<double>(q_len * group) + 4;
  const double of_keys = static_cast<double>(kv_len) + 4;
  const double of_shared =
      mask.bias == nullptr
          ? 0
          : static_cast<double>(q.shape[0] * heads) /
                    static_cast<double>(mask.bias->shape[0] * mask.bias->shape[1]) -
                1;
  for (std::size_t row = 0; row < q.values.size() / d; ++row) {
    const std::size_t b = row / q_len / heads;
    const std::size_t h = row / q_len % heads;
    const std::size_t kv_head = b * kv_heads + h / group;
    for (std::size_t j = 0; j < kv_len; ++j) {
      if (!sees(mask, b, static_cast<int>(row % q_len), static_cast<int>(j), q_len, kv_len))
        continue;
      const std::size_t key = (kv_head * kv_len + j) * d;
      const std::size_t place =
          mask.bias == nullptr ? 0 : bias_place(*mask.bias, b, h, row % q_len, j);
      double s = 0;
      double s_size = 0;
      double dp = 0;
      double dp_size = 0;
      for (std::size_t c = 0; c < d; ++c) {
        s += q.values[row * d + c] * k.values[key + c];
        s_size += std::abs(q.values[row * d + c] * k.values[key + c]);
        dp += dout.values[row * d + c] * v.values[key + c];
        dp_size += std::abs(dout.values[row * d + c] * v.values[key + c]);
      }
      s *= scale;
      double s_error = depth * kU32 * s_size * scale + 3 * kU32 * std::abs(s);
      double slope = 1;
      double slope_error = 0;
      if (mask.softcap > 0) {
        const double capped = std::tanh(s / mask.softcap);
        const double off = s_error / mask.softcap + 2 * kU32 * std::abs(capped);
        s = mask.softcap * capped;
        s_error += 4 * kU32 * std::abs(s);  // tanh does not enlarge an error
        slope = 1 - capped * capped;
        slope_error = (2 * std::abs(capped) + off) * off + 3 * kU32;
      }
      if (mask.bias != nullptr) {
        const double added = mask.bias->values[place];
        s += added;
        s_error += kU32 * (4 * std::abs(added) + 5 * std::abs(s));
      }
      const double p = std::exp(s - lse.values[row]);
      // The exponent, in base 2, is a product, a product and their sum.
      const double exponent_error = s_error + 4 * kU32 * (std::abs(s) + std::abs(lse.values[row]));
      const double p_error = p * (std::expm1(exponent_error) + 2 * kU32);
      // Dropped, or multiplied by what two roundings made: dp and the weight of dout.
      const double kept = mask.dropout.factor(row / q_len, row % q_len, j);
      const double kept_off = mask.dropout.rate > 0 ? 4 * kU32 : 0;
      const double inner = kept * dp - delta.values[row];
      const double inner_error =
          kept * (depth * kU32 * dp_size + kept_off * std::abs(dp)) * 1.01 + kU32 * std::abs(inner);
      const double weight = kept * p;
      const double weight_error = kept * (p_error + kept_off * (p + p_error));
      const double ds = p * inner * slope;
      const double ds_error =
          (p_error * (std::abs(inner) + inner_error) + p * inner_error) * (slope + slope_error) +
          p * std::abs(inner) * slope_error + 3 * kU32 * std::abs(ds);
      if (mask.bias != nullptr) {
        const double off = p_error * (std::abs(inner) + inner_error) + p * inner_error +
                           2 * kU32 * std::abs(p * inner);
        dbias.value.values[place] += p * inner;
        // Where entries or heads share a bias, terms of a sum.
        dbias.error.values[place] +=
            off + of_shared * kU32 * (std::abs(p * inner) + off) + 0x1p-140;
      }
      // Rounded to T, then factors of sums.
      const double p_off = weight_error + rounded * (weight + weight_error);
      const double ds_off = ds_error + rounded * (std::abs(ds) + ds_error);
      const double p_sum = p_off + of_queries * kU32 * (weight + p_off);
      const double ds_of_queries = ds_off + of_queries * kU32 * (std::abs(ds) + ds_off);
      const double ds_of_keys = ds_off + of_keys * kU32 * (std::abs(ds) + ds_off);
      for (std::size_t c = 0; c < d; ++c) {
        const double query = q.values[row * d + c];
        const double one_key = k.values[key + c];
        const double out = dout.values[row * d + c];
        dq.value.values[row * d + c] += scale * ds * one_key;
        dq.error.values[row * d + c] += scale * ds_of_keys * std::abs(one_key) + 0x1p-140;
        dk.value.values[key + c] += scale * ds * query;
        dk.error.values[key + c] += scale * ds_of_queries * std::abs(query) + 0x1p-140;
        dv.value.values[key + c] += weight * out;
        dv.error.values[key + c] += p_sum * std::abs(out) + 0x1p-140;
      }
    }
  }
  std::vector<Expected> all{dq, dk, dv};
  if (mask.bias != nullptr) all.push_back(dbias);
  return all;
}

Expected sink_grad(const Tensor& sink, const Tensor& lse, const Tensor& delta) {
  const std::size_t heads = lse.shape[1];
  const std::size_t q_len = lse.shape[2];
  const auto terms = static_cast<double>(lse.shape[0] * q_len);
  Tensor zeros = sink;
  for (double& x : zeros.values) x = 0;
  Expected dsink{zeros, zeros};
  for (std::size_t row = 0; row < lse.values.size(); ++row) {
    const std::size_t h = row / q_len % heads;
    const double exponent = sink.values[h] - lse.values[row];
    const double term = std::exp(exponent) * delta.values[row];
    dsink.value.values[h] -= term;
    // A difference, its exp, a product, and sums in any order.
    dsink.error.values[h] +=
        std::abs(term) * (std::expm1(kU32 * std::abs(exponent)) + (terms + 6) * kU32) + 0x1p-140;
  }
  return dsink;
}

}  // namespace tessera::reference
