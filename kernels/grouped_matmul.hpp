// Rows sorted by group, each group times its own matrix: the product of a mixture of experts.
//
//   o[i] = x[i] @ w[g(i)],   g(i): the group with offsets[g] <= i < offsets[g + 1]
//
// As megablox's gmm (Gale et al., arXiv:2211.15841). The host lists, for each block of rows, the
// groups that have rows in it (visits); the grid runs over them, so empty groups cost nothing and
// no weight is fetched without need. A block that several groups share is stored in parts.
#pragma once

#include <vector>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"

namespace tessera::kernels {

template <class T>
struct GroupedMatmul {
  static constexpr KernelInfo info{
      .name = "grouped_matmul",
      .summary = "matrix product with a right operand per group of rows",
      .math = "o[i,j] = sum_k x[i,k] w[g(i),k,j],  offsets[g(i)] <= i < offsets[g(i) + 1]",
      .cites = "arXiv:2211.15841"};

  int m = 0;
  int n = 0;
  int k = 0;
  int groups = 0;

  Smem<int> offsets;      ///< first row of each group, and m: groups + 1
  Smem<int> visit_start;  ///< first visit of each block of rows, and their number: ceil(m / bm) + 1
  Smem<int> visit_group;  ///< the group of each visit

  static constexpr auto sizes = params(
      size("m", &GroupedMatmul::m, "rows of x and o"),
      size("n", &GroupedMatmul::n, "columns of w and o"),
      size("k", &GroupedMatmul::k, "columns of x, rows of w"),
      size("groups", &GroupedMatmul::groups, "right operands (sizes: --input group_sizes=)"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"), tile("bk"));
  static constexpr std::array cases{Case{"aligned", {512, 512, 512, 8}, {128, 128, 128}},
                                    Case{"ragged", {300, 200, 260, 5}, {64, 128, 128}},
                                    Case{"whole k, one column", {512, 128, 128, 3}, {64, 128, 128}},
                                    Case{"degenerate", {1, 1, 1, 1}, {8, 128, 128}}};

  TESSERA_FN auto spec(auto bm, auto bn, auto bk) const {
    const auto start = visit_start;
    const auto group = visit_group;
    return tessera::spec(
        grid(parallel(ceil_div(m, bm)).as("i"), parallel(ceil_div(n, bn)).as("j"),
             arbitrary([start](auto i, auto) { return start[i]; },
                       [start](auto i, auto) { return start[i + 1]; })
                 .as("visit"),
             arbitrary(ceil_div(k, bk)).as("k")),
        scalars("offsets", offsets), scalars("visit_start", visit_start),
        scalars("visit_group", visit_group),
        in<T>("x", shape(m, k), block(bm, bk),
              [](auto i, auto, auto, auto kk) { return at(i, kk); })
            .pad(0),
        in<T>("w", shape(groups, k, n), block(squeezed, bk, bn),
              [group](auto, auto j, auto visit, auto kk) { return at(group[visit], kk, j); })
            .pad(0),
        out<T>("o", shape(m, n), block(bm, bn),
               [](auto i, auto j, auto, auto) { return at(i, j); }),
        accum<float>("acc", bm, bn));
  }

  /// x: its block for every visit and column of blocks; one whole k stays. w: a (k, n) matrix for
  /// every visit, less one that stays from block to block of rows when there is nothing else to
  /// walk over.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const int rows = ceil_div(m, t[0]);
    const int columns = ceil_div(n, t[1]);
    const bool one_k = ceil_div(k, t[2]) == 1;
    std::int64_t x_rows = 0;
    std::int64_t w_visits = 0;
    for (int i = 0; i < rows; ++i) {
      const std::int64_t block = lesser(m - i * t[0], t[0]);
      const std::int64_t visits = visit_start[i + 1] - visit_start[i];
      const bool stays = one_k && columns == 1 && target.keeps_blocks && i > 0 &&
                         visit_group[visit_start[i]] == visit_group[visit_start[i] - 1];
      x_rows += one_k ? (target.keeps_blocks ? block : block * columns) : block * visits * columns;
      w_visits += visits - (stays ? 1 : 0);
    }
    const std::int64_t scalars = std::int64_t{offsets.size} + visit_start.size + visit_group.size;
    return {(x_rows * k + w_visits * k * n) * kBytes<T> + scalars * kBytes<int>,
            std::int64_t{m} * n * kBytes<T>};
  }

  TESSERA_FN void operator()(auto& env, auto x, auto w, auto o, auto acc) const {
    if (env.first(3)) *acc = 0.f;  // (bm, bn) f32
    *acc += dot(*x, *w);           // one FMA chain over all of k
    if (env.last(3)) {
      const auto group = visit_group[env.program_id(2)];
      const auto row0 = env.program_id(0) * x.rows;
      const auto begin = offsets[group] - row0;
      const auto end = offsets[group + 1] - row0;
      o.store_at(cast<T>(*acc),
                 [=](auto r, auto) { return begin <= r && r < end; });  // rows of the group
    }
  }

  /// Visits from the group sizes: uneven ones from the seed, the second group empty, unless given.
  template <class Host>
  void prepare(Host& host, Tiles t) {
    std::vector<int> cuts{0, m};
    for (int g = 1; g < groups; ++g) cuts.push_back(g == 2 ? cuts[2] : host.random(0, m));
    for (std::size_t a = 0; a < cuts.size(); ++a) {
      for (std::size_t b = a + 1; b < cuts.size(); ++b) {
        if (cuts[b] < cuts[a]) std::swap(cuts[a], cuts[b]);
      }
    }
    std::vector<int> split;
    for (std::size_t g = 1; g < cuts.size(); ++g) split.push_back(cuts[g] - cuts[g - 1]);
    const auto given = host.scalars("group_sizes", std::move(split));
    if (given.size != groups) host.fail("group_sizes has one entry per group");
    std::vector<int> starts{0};
    for (int g = 0; g < groups; ++g) {
      if (given[g] < 0) host.fail("group_sizes are not negative");
      starts.push_back(starts.back() + given[g]);
    }
    if (starts.back() != m) host.fail("group_sizes add up to m");
    std::vector<int> visit_starts{0};
    std::vector<int> visits;
    for (int i = 0; i < ceil_div(m, t[0]); ++i) {
      const int first = i * t[0];
      const int end = lesser(first + t[0], m);
      for (int g = 0; g < groups; ++g) {
        const auto s = static_cast<std::size_t>(g);
        if (greater(starts[s], first) < lesser(starts[s + 1], end)) visits.push_back(g);
      }
      visit_starts.push_back(static_cast<int>(visits.size()));
    }
    offsets = host.keep("offsets", std::move(starts));
    visit_start = host.keep("visit_start", std::move(visit_starts));
    visit_group = host.keep("visit_group", std::move(visits));
  }
};

}  // namespace tessera::kernels
