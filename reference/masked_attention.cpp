#include <cmath>
#include <cstdlib>

#include "reference/attended_row.hpp"
#include "reference/attention.hpp"

namespace tessera::reference {

bool sees(const DenseMask& mask, int i, int j, std::size_t kv_len) {
  const bool before = j <= i;
  const bool near = std::abs(i - j) < mask.window;
  if (mask.kind == 1) return before;
  if (mask.kind == 2) return near;
  if (mask.kind == 3) return before && near;
  if (mask.kind == 4) return j / mask.window == 0 || j / mask.window == i / mask.window;
  if (mask.kind == 5)
    return mask.array->values[static_cast<std::size_t>(i) * kv_len + static_cast<std::size_t>(j)] !=
           0;
  return true;
}

std::vector<Expected> masked_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const DenseMask& mask) {
  const std::size_t batch = q.shape[0];
  const std::size_t heads = q.shape[1];
  const std::size_t q_len = q.shape[2];
  const std::size_t d = q.shape[3];
  const std::size_t kv_heads = k.shape[1];
  const std::size_t kv_len = k.shape[2];
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  constexpr double kLeastBlock = 8;  // keys that a kernel takes at a time, or all
  const Tensor of_rows{{batch, heads, q_len, 1}, std::vector<double>(batch * heads * q_len)};
  Expected o{q, q};
  Expected lse{of_rows, of_rows};
#pragma omp parallel for schedule(dynamic, 8)
  for (std::size_t row = 0; row < batch * heads * q_len; ++row) {
    const std::size_t head = row / q_len;
    const std::size_t kv = head / heads * kv_heads + head % heads / (heads / kv_heads);
    std::vector<SeenKey> seen;
    for (std::size_t j = 0; j < kv_len; ++j) {
      if (!sees(mask, static_cast<int>(row % q_len), static_cast<int>(j), kv_len)) continue;
      const std::size_t key = (kv * kv_len + j) * d;
      double s = 0;
      double magnitude = 0;
      for (std::size_t c = 0; c < d; ++c) {
        s += q.values[row * d + c] * k.values[key + c];
        magnitude += std::abs(q.values[row * d + c] * k.values[key + c]);
      }
      s *= scale;
      seen.push_back(
          {s, (static_cast<double>(d) + 1) * kU32 * magnitude * scale + 3 * kU32 * std::abs(s),
           v.values.data() + key});
    }
    const AttendedRow attended = attended_row(
        seen, d, {static_cast<double>(kv_len) / kLeastBlock + 1, mask.probabilities_in_bf16},
        o.value.values.data() + row * d, o.error.values.data() + row * d);
    lse.value.values[row] = attended.lse;
    lse.error.values[row] = attended.lse_error;
  }
  return {o, lse};
}

}  // namespace tessera::reference
