// The router of a mixture of experts: which of them a row goes to, and with what weight.
//
//   s = x @ w;   experts[i]: the columns of the `top` largest s[i], the largest first, of equal
//   ones the first;   gates[i,j] = exp(s[i, experts[i,j]]) / sum of the same over j
//
// That is the softmax over all experts, of the chosen ones, made to sum up to 1. Shazeer et al.,
// arXiv:1701.06538; Jiang et al. (Mixtral), arXiv:2401.04088. Rows then go to their experts sorted
// (embedding_rows, all_to_all), are multiplied (grouped_matmul) and come back weighted
// (embedding_rows): examples/60_mixture_of_experts.cpp.
#pragma once

#include <limits>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct MoeRoute {
  static constexpr KernelInfo info{
      .name = "moe_route",
      .summary = "router of a mixture of experts: the top few of x @ w, and their softmax",
      .math =
          "s = x @ w;  experts[i,j]: the column of the j-th largest s[i];  gates[i,j] = "
          "exp(s[i,experts[i,j]]) / sum_j exp(s[i,experts[i,j]])",
      .cites = "arXiv:1701.06538, arXiv:2401.04088"};

  int m = 0;
  int n = 0;
  int k = 0;
  int top = 2;

  static constexpr auto sizes =
      params(size("m", &MoeRoute::m, "rows of x"), size("n", &MoeRoute::n, "experts"),
             size("k", &MoeRoute::k, "columns of x, rows of w"),
             size("top", &MoeRoute::top, "experts of a row"));
  static constexpr auto tiles =
      tile_names(tile("bm"), tile("bn", "n"), tile("bk"), tile("bt", "top"));
  static constexpr std::array cases{Case{"aligned", {128, 64, 256, 2}, {64, 64, 128, 2}},
                                    Case{"ragged", {100, 40, 200, 6}, {64, 40, 128, 6}},
                                    Case{"degenerate", {1, 1, 1, 1}, {8, 1, 128, 1}}};

  const char* valid(Tiles t) const {
    if (t[1] != n || t[3] != top) return "blocks have whole rows: bn = n, bt = top";
    return top >= 1 && top <= n ? nullptr : "a row has 1 to n experts";
  }

  TESSERA_FN auto spec(auto bm, auto bn, auto bk, auto bt) const {
    auto row_block = [](auto i, auto) { return at(i, 0); };
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), arbitrary(ceil_div(k, bk)).as("k")),
        in<T>("x", shape(m, k), block(bm, bk), [](auto i, auto kk) { return at(i, kk); }).pad(0),
        in<T>("w", shape(k, n), block(bk, bn), [](auto, auto kk) { return at(kk, 0); }).pad(0),
        out<float>("gates", shape(m, top), block(bm, bt), row_block),
        out<int>("experts", shape(m, top), block(bm, bt), row_block), accum<float>("acc", bm, bn));
  }

  /// x once; w for each block of rows, or once for all if it is one block that stays.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const bool stays = ceil_div(k, t[2]) == 1 && target.keeps_blocks;
    return {
        (std::int64_t{m} * k + (stays ? 1 : ceil_div(m, t[0])) * std::int64_t{k} * n) * kBytes<T>,
        std::int64_t{m} * top * (kBytes<float> + kBytes<int>)};
  }

  TESSERA_FN void operator()(auto& env, auto x, auto w, auto gates, auto experts, auto acc) const {
    if (env.first(1)) *acc = 0.f;  // (bm, bn) f32
    *acc += dot(*x, *w);
    if (env.last(1)) {
      constexpr float kNone = -std::numeric_limits<float>::infinity();
      auto left = load(*acc);                 // (bm, bn) f32: of experts that are not taken yet
      const auto columns = col_ids(left);     // (bm, bn) i32
      const auto most = load(row_max(left));  // (bm, 1) f32
      auto shares = load(full<float>(env, gates.rows, gates.cols, 0.f));  // (bm, bt) f32
      auto ids = load(full<int>(env, gates.rows, gates.cols, 0));         // (bm, bt) i32
      for (int j = 0; j < top; ++j) {
        const auto best = load(row_max(left));                           // (bm, 1) f32
        const auto id = load(row_min(where(left == best, columns, n)));  // (bm, 1) i32
        left = load(where(columns == id, kNone, left));
        shares = load(where(col_ids(shares) == j, exp(best - most), shares));
        ids = load(where(col_ids(ids) == j, id, ids));
      }
      *gates = shares / row_sum(shares);
      *experts = ids;
    }
  }
};

}  // namespace tessera::kernels
