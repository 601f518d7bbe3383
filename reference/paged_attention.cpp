#include <algorithm>
#include <cmath>

#include "reference/attended_row.hpp"
#include "reference/attention.hpp"

namespace tessera::reference {

std::vector<Expected> paged_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                      const Pages& pages) {
  const std::size_t batch = q.shape[0];
  const std::size_t heads = k.shape[1];
  const std::size_t group = q.shape[2];
  const std::size_t page = k.shape[2];
  const std::size_t d = k.shape[3];
  const std::size_t each = pages.table.size() / batch;
  const auto splits = static_cast<std::size_t>(pages.splits);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const std::size_t rows = batch * splits * heads * group;
  const Tensor of_parts{{batch, splits, heads, group, d}, std::vector<double>(rows * d)};
  const Tensor of_rows{{batch, splits, heads, group, 1}, std::vector<double>(rows)};
  Expected part{of_parts, of_parts};
  Expected lse{of_rows, of_rows};
#pragma omp parallel for schedule(dynamic, 4)
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t head = row / group % heads;
    const std::size_t split = row / group / heads % splits;
    const std::size_t b = row / group / heads / splits;
    const auto length = static_cast<std::size_t>(pages.lengths[b]);
    const auto window = static_cast<std::size_t>(pages.window);
    const std::size_t first = window > 0 && length > window ? length - window : 0;
    const std::size_t pages_seen = (length + page - 1) / page - first / page;
    const std::size_t run = (pages_seen + splits - 1) / splits;
    const std::size_t begin = std::max(first, (first / page + split * run) * page);
    const std::size_t end = std::min(length, (first / page + (split + 1) * run) * page);
    const double* query = q.values.data() + ((b * heads + head) * group + row % group) * d;
    std::vector<SeenKey> seen;
    std::vector<double> scaled(d * (end > begin ? end - begin : 0));
    for (std::size_t j = begin; j < end; ++j) {
      const auto at = static_cast<std::size_t>(pages.table[b * each + j / page]);
      const std::size_t key = (at * heads + head) * page + j % page;
      const double k_scale = pages.k_scales == nullptr ? 1 : pages.k_scales->values[key];
      const double v_scale = pages.v_scales == nullptr ? 1 : pages.v_scales->values[key];
      double s = 0;
      double magnitude = 0;
      for (std::size_t c = 0; c < d; ++c) {
        s += query[c] * k.values[key * d + c];
        magnitude += std::abs(query[c] * k.values[key * d + c]);
        scaled[(j - begin) * d + c] = v.values[key * d + c] * v_scale;
      }
      s *= scale * k_scale;
      magnitude *= scale * k_scale;
      seen.push_back({s, (static_cast<double>(d) + 1) * kU32 * magnitude + 4 * kU32 * std::abs(s),
                      scaled.data() + (j - begin) * d});
    }
    if (pages.sinks != nullptr && split == 0) {
      const double sink = pages.sinks->values[head * group + row % group];
      seen.push_back({sink, 4 * kU32 * std::abs(sink), nullptr});
    }
    const AttendedRow attended =
        attended_row(seen, d, {static_cast<double>(run) + 1, pages.probabilities_in_bf16},
                     part.value.values.data() + row * d, part.error.values.data() + row * d);
    lse.value.values[row] = attended.lse;
    lse.error.values[row] = attended.lse_error;
  }
  if (splits > 1) return {part, lse};
  part.value.shape = part.error.shape = q.shape;
  return {part};
}

std::vector<Expected> ragged_paged_attention(const Tensor& q, const Tensor& k_new,
                                             const Tensor& v_new, const Tensor& k_cache,
                                             const Tensor& v_cache, const Pages& pages) {
  const std::size_t sequences = pages.lengths.size();
  const auto tokens = static_cast<std::size_t>(pages.starts.back());
  const std::size_t heads = k_new.shape[0] / std::max<std::size_t>(tokens, 1);
  const std::size_t group = q.shape[1];
  const std::size_t page = k_cache.shape[1];
  const std::size_t d = q.shape[2];
  const std::size_t each = pages.table.size() / sequences;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  Tensor none = k_cache;
  std::fill(none.values.begin(), none.values.end(), 0.);
  Expected k{k_cache, none};
  Expected v{v_cache, none};
  Expected o{q, q};
  for (std::size_t b = 0; b < sequences; ++b) {
    const auto first = static_cast<std::size_t>(pages.starts[b]);
    const std::size_t fresh = static_cast<std::size_t>(pages.starts[b + 1]) - first;
    const std::size_t before = static_cast<std::size_t>(pages.lengths[b]) - fresh;
    // Row of key j of head h.
    const auto row_of = [&](std::size_t j, std::size_t h) {
      const auto at = static_cast<std::size_t>(pages.table[b * each + j / page]);
      return (at * heads + h) * page + j % page;
    };
    for (std::size_t i = 0; i < fresh; ++i) {
      for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t from = ((first + i) * heads + h) * d;
        const std::size_t to = row_of(before + i, h) * d;
        for (std::size_t c = 0; c < d; ++c) {
          k.value.values[to + c] = k_new.values[from + c];
          v.value.values[to + c] = v_new.values[from + c];
        }
      }
    }
#pragma omp parallel for schedule(dynamic, 4)
    for (std::size_t row = 0; row < fresh * heads * group; ++row) {
      const std::size_t i = row / group / heads;
      const std::size_t query = (first * heads * group + row) * d;
      const std::size_t end = before + i + 1;
      const auto window = static_cast<std::size_t>(pages.window);
      std::vector<SeenKey> seen;
      for (std::size_t j = window > 0 && end > window ? end - window : 0; j < end; ++j) {
        const std::size_t key = row_of(j, row / group % heads) * d;
        double s = 0;
        double magnitude = 0;
        for (std::size_t c = 0; c < d; ++c) {
          s += q.values[query + c] * k.value.values[key + c];
          magnitude += std::abs(q.values[query + c] * k.value.values[key + c]);
        }
        s *= scale;
        seen.push_back(
            {s, (static_cast<double>(d) + 1) * kU32 * magnitude * scale + 3 * kU32 * std::abs(s),
             v.value.values.data() + key});
      }
      attended_row(
          seen, d,
          {static_cast<double>(end) / static_cast<double>(page) + 2, pages.probabilities_in_bf16},
          o.value.values.data() + query, o.error.values.data() + query);
    }
  }
  return {o, k, v};
}

Expected attention_merge(const Tensor& part, const Tensor& lse) {
  const std::size_t parts = part.shape[1];
  const std::size_t rows = part.shape[2];
  const std::size_t d = part.shape[3];
  const std::size_t batch = part.shape[0];
  const Tensor merged{{batch, rows, d}, std::vector<double>(batch * rows * d)};
  Expected e{merged, merged};
  for (std::size_t row = 0; row < batch * rows; ++row) {
    std::vector<SeenKey> seen;
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t from = (row / rows * parts + i) * rows + row % rows;
      if (lse.values[from] == -INFINITY) continue;
      seen.push_back(
          {lse.values[from], kU32 * std::abs(lse.values[from]), part.values.data() + from * d});
    }
    attended_row(seen, d, {static_cast<double>(parts), false}, e.value.values.data() + row * d,
                 e.error.values.data() + row * d);
  }
  return e;
}

}  // namespace tessera::reference
