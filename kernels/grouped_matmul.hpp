// Rows sorted by group, each group times its own matrix: the product of a mixture of experts.
//
//   o[i] = x[i] @ w[g(i)],   g(i): the group with offsets[g] <= i < offsets[g + 1]
//
// As megablox's gmm (Gale et al., arXiv:2211.15841). The host lists, for each block of rows, the
// groups that have rows in it (visits); the grid runs over them, so empty groups cost nothing and
// no weight is fetched without need. A block that several groups share is stored in parts. A shard
// of the groups writes into an existing output, in its place: of blocks that its groups meet alone,
// where rows of other groups stay as they are; its own are replaced, or added to. What becomes of a
// product before that (bias of a group, layer norm, GELU, SwiGLU): kernels/epilogue.hpp.
#pragma once

#include <vector>

#include "kernels/epilogue.hpp"
#include "kernels/groups.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
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
  int before = 0;
  int all_groups = 0;
  int existing = 0;
  int epilogue = 0;
  float eps = 1e-5f;

  Smem<int> offsets;      ///< first row of each group, and the end of the last: groups + 1
  Smem<int> visit_start;  ///< first visit of each block of rows from first_block, and their number
  Smem<int> visit_group;  ///< the group of each visit
  int first_block = 0;    ///< of rows: the first that the groups meet

  static constexpr auto sizes = params(
      size("m", &GroupedMatmul::m, "rows of x and o"),
      size("n", &GroupedMatmul::n, "columns of w and o"),
      size("k", &GroupedMatmul::k, "columns of x, rows of w"),
      size("groups", &GroupedMatmul::groups, "right operands (sizes: --input group_sizes=)"),
      size("before", &GroupedMatmul::before, "groups before them, of other shards"),
      size("all_groups", &GroupedMatmul::all_groups,
           "groups of all shards; 0: no others come after"),
      size("existing", &GroupedMatmul::existing,
           "1: o is there, and keeps rows of other shards' groups; 2: and others are added to"),
      size("epilogue", &GroupedMatmul::epilogue,
           "0: none; 1: gelu; 2: gelu by tanh; 3: swiglu; 4: relu; +8: layer norm; +16: bias"),
      size("eps", &GroupedMatmul::eps, "of a layer norm: added to the variance"));
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"), tile("bk"),
                                           tile("kept", "existing"), tile("ep", "epilogue"));
  static constexpr std::array cases{
      Case{"aligned", {512, 512, 512, 8, 0, 0, 0, 0, 1e-5}, {128, 128, 128, 0, 0}},
      Case{"ragged", {300, 200, 260, 5, 0, 0, 0, 0, 1e-5}, {64, 128, 128, 0, 0}},
      Case{"whole k, one column", {512, 128, 128, 3, 0, 0, 0, 0, 1e-5}, {64, 128, 128, 0, 0}},
      Case{"a shard into an existing output",
           {500, 130, 200, 3, 2, 8, 1, 0, 1e-5},
           {64, 128, 128, 1, 0}},
      Case{"added to, ragged", {300, 100, 128, 2, 1, 0, 2, 0, 1e-5}, {64, 128, 128, 2, 0}},
      Case{"swiglu, ragged", {200, 150, 140, 4, 0, 0, 0, 3, 1e-5}, {64, 128, 128, 0, 3}},
      Case{"bias, gelu", {200, 256, 256, 3, 0, 0, 0, 17, 1e-5}, {64, 128, 128, 0, 17}},
      Case{"bias, layer norm, one column",
           {150, 100, 128, 4, 0, 0, 0, 24, 1e-5},
           {64, 128, 128, 0, 24}},
      Case{"degenerate", {1, 1, 1, 1, 0, 0, 0, 0, 1e-5}, {8, 128, 128, 0, 0}}};

  const char* valid(Tiles t) const {
    if (existing < 0 || existing > 2) return "existing is 0, 1 or 2";
    if (t[3] != existing) return "a build has an existing output, or has none: kept = existing";
    if (t[4] != epilogue) return "a build has one epilogue: ep = epilogue";
    if (const char* fault = Epilogue{epilogue}.fault(n, t[1])) return fault;
    const GroupShard shard{groups, before, all_groups};
    if (shard.fault() != nullptr) return shard.fault();
    return existing == 0 && shard.total() > groups
               ? "a shard of the groups leaves rows of others as they are: existing, 1 or 2"
               : nullptr;
  }

  TESSERA_FN auto spec(auto bm, auto bn, auto bk, auto kept, auto ep) const {
    const auto start = visit_start;
    const auto group = visit_group;
    const int first = first_block;
    auto right = [group](auto, auto j, auto visit, auto kk) { return at(group[visit], kk, j); };
    auto row_vector = [](auto, auto j, auto, auto) { return at(0, j); };
    auto result = [first](auto i, auto j, auto, auto) { return at(first + i, j); };
    return tessera::spec(
        grid(parallel(visit_start.size - 1).as("i"), parallel(ceil_div(n, bn)).as("j"),
             arbitrary([start](auto i, auto) { return start[i]; },
                       [start](auto i, auto) { return start[i + 1]; })
                 .as("visit"),
             arbitrary(ceil_div(k, bk)).as("k")),
        scalars("offsets", offsets), scalars("visit_start", visit_start),
        scalars("visit_group", visit_group),
        in<T>("x", shape(m, k), block(bm, bk),
              [first](auto i, auto, auto, auto kk) { return at(first + i, kk); })
            .pad(0),
        in<T>("w", shape(groups, k, n), block(squeezed, bk, bn), right).pad(0),
        in<T>("v", shape(groups, k, n), block(squeezed, bk, bn), right)
            .pad(0)
            .when(epilogue_has(ep, IsGated{})),
        in<float>("bias", shape(groups, 1, n), block(squeezed, Int<1>{}, bn),
                  [group](auto, auto j, auto visit, auto) { return at(group[visit], 0, j); })
            .pad(0)
            .when(epilogue_has(ep, IsBiased{})),
        in<float>("gamma", shape(1, n), block(Int<1>{}, bn), row_vector)
            .when(epilogue_has(ep, IsNormed{})),
        in<float>("beta", shape(1, n), block(Int<1>{}, bn), row_vector)
            .when(epilogue_has(ep, IsNormed{})),
        in<T>("existing", shape(m, n), block(bm, bn), result).when(kept),
        out<T>("o", shape(m, n), block(bm, bn), result)
            .aliases(existing != 0 ? "existing" : nullptr),
        accum<float>("acc", bm, bn), accum<float>("up", bm, bn).when(Epilogue{epilogue}.gated()),
        accum<float>("tag", Int<1>{}, activation_tag(ep)).when(false));
  }

  /// x: its block for every visit and column of blocks; one whole k stays. w: a (k, n) matrix for
  /// every visit, less one that stays from block to block of rows when there is nothing else to
  /// walk over; v likewise. o, and what is there already: rows of blocks that groups meet, once. A
  /// bias for every visit, less one that stays with its group; a layer norm's vectors stay, in each
  /// cell of a device that empties it.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const int blocks = visit_start.size - 1;
    const int columns = ceil_div(n, t[1]);
    const bool one_k = ceil_div(k, t[2]) == 1;
    std::int64_t x_rows = 0;
    std::int64_t w_visits = 0;
    std::int64_t bias_visits = 0;
    std::int64_t o_rows = 0;
    for (int i = 0; i < blocks; ++i) {
      const std::int64_t block = lesser(m - (first_block + i) * t[0], t[0]);
      const std::int64_t visits = visit_start[i + 1] - visit_start[i];
      const bool same_group = columns == 1 && target.keeps_blocks && i > 0 &&
                              visit_group[visit_start[i]] == visit_group[visit_start[i] - 1];
      x_rows += one_k ? (target.keeps_blocks ? block : block * columns) : block * visits * columns;
      w_visits += visits - (one_k && same_group ? 1 : 0);
      bias_visits += visits - (same_group ? 1 : 0);
      o_rows += block;
    }
    const std::int64_t scalars = std::int64_t{offsets.size} + visit_start.size + visit_group.size;
    const Epilogue e{epilogue};
    const std::int64_t vectors =
        (e.biased() ? bias_visits : 0) + (e.normed() ? 2 * (target.keeps_blocks ? 1 : blocks) : 0);
    return {
        (x_rows * k + (e.gated() ? 2 : 1) * w_visits * k * n + (existing != 0 ? o_rows * n : 0)) *
                kBytes<T> +
            vectors * n * kBytes<float> + scalars * kBytes<int>,
        o_rows * n * kBytes<T>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class W, class V, class Bias, class Gamma, class Beta,
            class Existing, class O, class Acc, class Up, class Tag>
  TESSERA_FN void operator()(Env& env, X x, W w, V v, Bias bias, Gamma gamma, Beta beta,
                             Existing there, O o, Acc acc, Up up, Tag tag) const {
    if (env.first(3)) {
      *acc = 0.f;                // (bm, bn) f32
      if (v.there()) *up = 0.f;  // (bm, bn) f32
    }
    *acc += dot(*x, *w);  // one FMA chain over all of k
    if (v.there()) *up += dot(*x, *v);
    if (there.there() && env.first(2) && env.first(3)) *o = *there;
    if (env.last(3)) {
      finish({n, eps}, acc, up, v, bias, gamma, beta, tag);
      const auto group = visit_group[env.program_id(2)];
      const auto row0 = (first_block + env.program_id(0)) * x.rows;
      const auto begin = offsets[group] - row0;
      const auto end = offsets[group + 1] - row0;
      if (there.there() && existing == 2) *acc += cast<float>(*there);
      o.store_at(cast<T>(*acc),
                 [=](auto r, auto) { return begin <= r && r < end; });  // rows of the group
    }
  }

  /// Visits from the group sizes.
  template <class Host>
  void prepare(Host& host, Tiles t) {
    auto starts = first_rows(host, m, {groups, before, all_groups});
    std::vector<int> visit_starts{0};
    std::vector<int> visits;
    first_block = lesser(starts.front(), m - 1) / t[0];
    for (int first = first_block * t[0]; first == first_block * t[0] || first < starts.back();
         first += t[0]) {
      for (int g = 0; g < groups; ++g) {
        const auto s = static_cast<std::size_t>(g);
        if (greater(starts[s], first) < lesser(starts[s + 1], first + t[0])) visits.push_back(g);
      }
      if (visits.empty()) visits.push_back(0);  // no group has a row
      visit_starts.push_back(static_cast<int>(visits.size()));
    }
    offsets = host.keep("offsets", std::move(starts));
    visit_start = host.keep("visit_start", std::move(visit_starts));
    visit_group = host.keep("visit_group", std::move(visits));
  }
};

}  // namespace tessera::kernels
