// The transposed grouped product: each group's rows of two matrices, one turned, multiplied.
//
//   o[g] = x[rows of g]^T @ y[rows of g],   rows of g: offsets[g] <= i < offsets[g + 1]
//
// The gradient of grouped_matmul by its right operands, y being that by o: megablox's tgmm (Gale et
// al., arXiv:2211.15841). A group without rows is zeros. `existing`: o is added to it, in its
// place. The host lists the blocks of rows that each group meets (visits), one of a group without
// rows too: the block before it, which is there already. Rows of other groups in a block are masked
// in both factors, since they may be anything.
#pragma once

#include <vector>

#include "kernels/groups.hpp"
#include "kernels/matmul_bytes.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct Tgmm {
  static constexpr KernelInfo info{
      .name = "tgmm",
      .summary = "product of the rows of each group: gradient of grouped_matmul by w",
      .math = "o[g,k,j] = existing[g,k,j] + sum_i x[i,k] y[i,j],  offsets[g] <= i < offsets[g + 1]",
      .cites = "arXiv:2211.15841"};

  int m = 0;
  int n = 0;
  int k = 0;
  int groups = 0;
  int before = 0;
  int all_groups = 0;
  int existing = 0;

  Smem<int> offsets;      ///< first row of each group, and the end of the last: groups + 1
  Smem<int> visit_group;  ///< the group of each visit, rising
  Smem<int> visit_row;    ///< its block of rows

  static constexpr auto sizes =
      params(size("m", &Tgmm::m, "rows of x and y"), size("n", &Tgmm::n, "columns of y and o"),
             size("k", &Tgmm::k, "columns of x, rows of o"),
             size("groups", &Tgmm::groups, "results (rows of each: --input group_sizes=)"),
             size("before", &Tgmm::before, "groups before them, of other shards"),
             size("all_groups", &Tgmm::all_groups, "groups of all shards; 0: no others come after"),
             size("existing", &Tgmm::existing, "1: o is added to an existing one"));
  static constexpr auto tiles =
      tile_names(tile("bm"), tile("bn"), tile("bk"), tile("added", "existing"));
  static constexpr std::array cases{
      Case{"aligned", {512, 256, 256, 4, 0, 0, 0}, {64, 128, 128, 0}},
      Case{"ragged", {300, 200, 150, 5, 0, 0, 0}, {64, 128, 128, 0}},
      Case{"existing", {256, 128, 200, 3, 0, 0, 1}, {64, 128, 128, 1}},
      Case{"ragged, a shard", {300, 100, 128, 3, 2, 9, 1}, {64, 128, 128, 1}},
      Case{"one block of rows", {60, 300, 200, 6, 1, 0, 0}, {64, 128, 128, 0}},
      Case{"degenerate", {1, 1, 1, 2, 0, 0, 0}, {8, 128, 128, 0}}};

  const char* valid(Tiles t) const {
    if (t[3] != existing) return "a build has an existing output, or has none: added = existing";
    return GroupShard{groups, before, all_groups}.fault();
  }

  TESSERA_FN auto spec(auto bm, auto bn, auto bk, auto added) const {
    const auto group = visit_group;
    const auto row = visit_row;
    auto result = [group](auto kk, auto j, auto visit) { return at(group[visit], kk, j); };
    return tessera::spec(
        grid(parallel(ceil_div(k, bk)).as("k"), parallel(ceil_div(n, bn)).as("j"),
             arbitrary(visit_group.size).as("visit")),
        scalars("offsets", offsets), scalars("visit_group", visit_group),
        scalars("visit_row", visit_row),
        in<T>("x", shape(m, k), block(bm, bk),
              [row](auto kk, auto, auto visit) { return at(row[visit], kk); })
            .pad(0),
        in<T>("y", shape(m, n), block(bm, bn),
              [row](auto, auto j, auto visit) { return at(row[visit], j); })
            .pad(0),
        in<T>("existing", shape(groups, k, n), block(squeezed, bk, bn), result).when(added),
        out<T>("o", shape(groups, k, n), block(squeezed, bk, bn), result)
            .aliases(existing != 0 ? "existing" : nullptr),
        vmem<T>("xs", bm, bk), vmem<T>("ys", bm, bn), accum<float>("acc", bk, bn));
  }

  /// A (k, rows) x (rows, n) product, of the rows of blocks that some visit meets; o once, and once
  /// what it is added to.
  Bytes hbm_bytes(Tiles t, Target target) const {
    int rows = 0;
    int blocks = 0;
    for (int v = 0; v < visit_row.size; ++v) {
      if (v > 0 && visit_row[v] == visit_row[v - 1]) continue;
      rows += lesser((visit_row[v] + 1) * t[0], m) - visit_row[v] * t[0];
      ++blocks;
    }
    const auto reads = matmul_reads(k, n, rows, t[2], t[1], ceil_div(rows, blocks), target);
    const std::int64_t results = std::int64_t{groups} * k * n * kBytes<T>;
    const std::int64_t scalars = std::int64_t{offsets.size} + visit_group.size + visit_row.size;
    return {(reads.left + reads.right) * kBytes<T> + (existing != 0 ? results : 0) +
                scalars * kBytes<int>,
            results};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class Y, class Existing, class O, class Xs, class Ys, class Acc>
  TESSERA_FN void operator()(Env& env, X x, Y y, Existing there, O o, Xs xs, Ys ys, Acc acc) const {
    const auto visit = env.program_id(2);
    const auto group = visit_group[visit];
    const auto row0 = visit_row[visit] * x.rows;
    const auto begin = offsets[group] - row0;  // in the block
    const auto end = offsets[group + 1] - row0;
    if (begin >= 0) *acc = 0.f;  // (bk, bn) f32: the group's first visit
    if (begin <= 0 && end >= x.rows) {
      *acc += dot(transpose(*x), *y);  // one FMA chain over the group's rows
    } else {
      const auto of_group = [=](auto r, auto) { return begin <= r && r < end; };
      *xs = cast<T>(where_at(cast<float>(*x), of_group, 0.f));  // (bm, bk) T
      *ys = cast<T>(where_at(cast<float>(*y), of_group, 0.f));  // (bm, bn) T
      *acc += dot(transpose(*xs), *ys);
    }
    if (end <= x.rows) {  // its last
      if (there.there()) *acc += cast<float>(*there);
      *o = cast<T>(*acc);  // (bk, bn) T
    }
  }

  template <class Host>
  void prepare(Host& host, Tiles t) {
    auto starts = first_rows(host, m, {groups, before, all_groups});
    std::vector<int> of_group;
    std::vector<int> rows;
    for (int g = 0; g < groups; ++g) {
      const int begin = starts[static_cast<std::size_t>(g)];
      const int end = starts[static_cast<std::size_t>(g) + 1];
      const int first = begin < end    ? begin / t[0]
                        : rows.empty() ? lesser(begin, m - 1) / t[0]
                                       : rows.back();
      for (int row = first; row == first || row * t[0] < end; ++row) {
        of_group.push_back(g);
        rows.push_back(row);
      }
    }
    offsets = host.keep("offsets", std::move(starts));
    visit_group = host.keep("visit_group", std::move(of_group));
    visit_row = host.keep("visit_row", std::move(rows));
  }
};

}  // namespace tessera::kernels
