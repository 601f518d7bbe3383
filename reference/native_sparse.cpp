#include "reference/native_sparse.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/attended_row.hpp"

namespace tessera::reference {

namespace {

/// Score of a row of q and a row of k, and what f32 may be off by.
SeenKey scored(const double* q, const double* k, std::size_t d) {
  double s = 0;
  double magnitude = 0;
  for (std::size_t c = 0; c < d; ++c) {
    s += q[c] * k[c];
    magnitude += std::abs(q[c] * k[c]);
  }
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  return {s * scale,
          (static_cast<double>(d) + 1) * kU32 * magnitude * scale + 3 * kU32 * std::abs(s * scale),
          nullptr};
}

}  // namespace

Expected native_sparse_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const std::vector<int>& ids, const SparseBranches& branches) {
  const std::size_t d = q.shape[3];
  const std::size_t rows = q.shape[2];
  const std::size_t len = k.shape[2];
  const std::size_t top = branches.top;
  const std::size_t selections = (len + branches.share - 1) / branches.share;
  Expected o{q, q};
#pragma omp parallel for schedule(dynamic, 8)
  for (std::size_t row = 0; row < q.shape[0] * q.shape[1] * rows; ++row) {
    const std::size_t head = row / rows;
    const std::size_t t = row % rows / branches.group;
    const int* wanted = ids.data() + (head * selections + t / branches.share) * top;
    std::vector<SeenKey> selected;
    std::vector<SeenKey> near;
    for (std::size_t j = 0; j <= t && j < len; ++j) {
      const std::size_t at = (head * len + j) * d;
      SeenKey key = scored(q.values.data() + row * d, k.values.data() + at, d);
      key.value = v.values.data() + at;
      if (std::count(wanted, wanted + top, static_cast<int>(j / branches.block)) > 0)
        selected.push_back(key);
      if (branches.window > 0 && j + branches.window > t) near.push_back(key);
    }
    const AttendOptions options{static_cast<double>(len / branches.block + 2),
                                branches.probabilities_in_bf16};
    std::vector<double> value(d);
    std::vector<double> error(d);
    for (std::size_t c = 0; c < d; ++c)
      o.value.values[row * d + c] = o.error.values[row * d + c] = 0;
    const auto add = [&](const Tensor* gate, const double* of, const double* off) {
      const double weight = gate == nullptr ? 1 : gate->values[row];
      for (std::size_t c = 0; c < d; ++c) {
        const double term = weight * of[c];
        o.value.values[row * d + c] += term;
        // A division's rounding, a product's, and those of three sums.
        o.error.values[row * d + c] +=
            6 * kU32 * std::abs(term) + (off == nullptr ? 0 : std::abs(weight) * off[c] * 1.01);
      }
    };
    attended_row(selected, d, options, value.data(), error.data());
    add(branches.g_slc, value.data(), error.data());
    if (branches.window > 0) {
      attended_row(near, d, options, value.data(), error.data());
      add(branches.g_win, value.data(), error.data());
    }
    if (branches.part != nullptr)
      add(branches.g_cmp, branches.part->values.data() + row * d, nullptr);
  }
  return o;
}

std::vector<Expected> native_sparse_select(const Tensor& q, const Tensor& k_cmp,
                                           const Tensor& v_cmp, const SparseBranches& branches) {
  const std::size_t d = q.shape[3];
  const std::size_t rows = q.shape[2];
  const std::size_t heads = q.shape[0] * q.shape[1];
  const std::size_t top = branches.top;
  const std::size_t blocks = k_cmp.shape[2];
  const std::size_t len = rows / branches.group;
  const std::size_t runs = (len + branches.share - 1) / branches.share;
  const Tensor like{{q.shape[0], q.shape[1], runs, 1, top},
                    std::vector<double>(heads * runs * top)};
  Expected o{q, q};
  Expected ids{like, like};
  std::vector<double> score(heads * runs * blocks);
  std::vector<double> score_off(score.size());
  const double in_sum = static_cast<double>(branches.share * branches.group) + 8;
  for (std::size_t row = 0; row < heads * rows; ++row) {
    const std::size_t head = row / rows;
    const std::size_t t = row % rows / branches.group;
    std::vector<SeenKey> seen;
    for (std::size_t c = 0; (c + 1) * branches.block <= t + 1; ++c) {
      const std::size_t at = (head * blocks + c) * d;
      seen.push_back(scored(q.values.data() + row * d, k_cmp.values.data() + at, d));
      seen.back().value = v_cmp.values.data() + at;
    }
    const AttendedRow all =
        attended_row(seen, d, {1, branches.probabilities_in_bf16}, o.value.values.data() + row * d,
                     o.error.values.data() + row * d);
    const std::size_t run = (head * runs + t / branches.share) * blocks;
    for (std::size_t c = 0; c < seen.size(); ++c) {
      const double p = std::exp(seen[c].s - all.lse);
      score[run + c] += p;
      score_off[run + c] +=
          p * (std::expm1(seen[c].error + all.lse_error + kU32 * 4 * (std::abs(all.lse) + 8)) +
               in_sum * kU32);
    }
  }
  for (std::size_t run = 0; run < heads * runs; ++run) {
    const std::size_t own = run % runs * branches.share / branches.block;
    const double* of = score.data() + run * blocks;
    const double* off = score_off.data() + run * blocks;
    std::vector<std::size_t> order(own);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return of[a] > of[b]; });
    // Two that are nearer than they may be off may change places.
    const auto apart = [&](std::size_t j) {
      return j == 0 || j >= own ||
             of[order[j - 1]] - of[order[j]] > off[order[j - 1]] + off[order[j]];
    };
    for (std::size_t j = 0; j < top; ++j) {
      const bool found = j > 0 && j <= own;
      ids.value.values[run * top + j] = j == 0  ? static_cast<double>(own)
                                        : found ? static_cast<double>(order[j - 1])
                                                : -1;
      ids.error.values[run * top + j] =
          found && !(apart(j - 1) && apart(j)) ? static_cast<double>(blocks) : 0;
    }
  }
  return {o, ids};
}

}  // namespace tessera::reference
