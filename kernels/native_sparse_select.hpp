// The compressed branch of native sparse attention, and the blocks of keys that it selects.
//
//   o[t,h] = sum_c p[t,h,c] v_cmp[c],  p[t,h] = softmax_c(q[t,h] . k_cmp[c] / sqrt(head_dim)) over
//   the blocks c that end at or before t: (c + 1) block <= t + 1;  zero if there is none
//   ids[i]: the block of queries [i share, (i + 1) share) itself, then those before it by
//   score[c] = sum_{t,h} p[t,h,c], the largest first, of equal ones the first; -1 where none is
//   left
//
// Yuan et al., arXiv:2502.11089, equations 7 to 12, with blocks of the compressed and of the
// selected branch alike. k_cmp and v_cmp are made from each block of keys and values, by a learnt
// function or as their means (embedding_rows). The heads of a key head select together; br / group
// queries do too: 1 in the paper.
#pragma once

#include <cmath>
#include <limits>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/fma.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct NativeSparseSelect {
  static constexpr KernelInfo info{
      .name = "native_sparse_select",
      .summary = "attention to compressed keys, and the blocks that its scores select",
      .math =
          "o[t] = softmax_c(q[t] . k_cmp[c] / sqrt(head_dim)) v_cmp[c] over blocks c that end by "
          "t;  ids[i]: the block of i, then the largest of the sums of these softmax",
      .cites = "arXiv:2502.11089"};
  static constexpr bool exchanges = true;

  int batch = 1;
  int kv_heads = 1;
  int group = 1;
  int len = 0;
  int head_dim = 0;
  int block_len = 1;
  int blocks = 1;
  int top = 1;

  float scale = 0;  ///< of q . k, and of base 2: log2(e) / sqrt(head_dim)
  int share = 1;    ///< queries that select together: br / group

  using Self = NativeSparseSelect;
  static constexpr auto sizes =
      params(size("batch", &Self::batch, "sequences"),
             size("kv_heads", &Self::kv_heads, "key and value heads"),
             size("group", &Self::group, "query heads of each"),
             size("len", &Self::len, "queries, and keys"),
             size("head_dim", &Self::head_dim, "columns of q, k_cmp, v_cmp and o"),
             size("block", &Self::block_len, "keys of a block"),
             size("blocks", &Self::blocks, "blocks of keys: ceil(len / block)"),
             size("top", &Self::top, "blocks to select"));
  static constexpr auto tiles =
      tile_names(tile("br"), tile("bn", "blocks"), tile("bd", "head_dim"), tile("bt", "top"));
  static constexpr std::array cases{
      Case{"aligned", {1, 1, 16, 256, 64, 32, 8, 4}, {32, 8, 64, 4}},
      Case{"ragged", {2, 1, 8, 75, 64, 16, 5, 3}, {32, 5, 64, 3}},
      Case{"selection of every query", {1, 1, 16, 40, 64, 16, 3, 2}, {16, 3, 64, 2}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1}}};

  const char* valid(Tiles t) const {
    if (blocks != ceil_div(len, block_len)) return "blocks is ceil(len / block)";
    if (t[0] % group != 0) return "blocks have all queries of a key head: br a multiple of group";
    if (t[1] != blocks || t[3] != top) return "blocks are whole: bn = blocks, bt = top";
    if (t[2] < head_dim) return "bd must hold a whole row: bd >= head_dim";
    if (block_len % (t[0] / group) != 0)
      return "queries that select together lie in one block: br / group divides block";
    return top >= 1 ? nullptr : "top is 1 or more";
  }

  TESSERA_FN auto spec(auto br, auto bn, auto bd, auto bt) const {
    auto q_block = [](auto b, auto h, auto i) { return at(b, h, i, 0); };
    auto of_head = [](auto b, auto h, auto) { return at(b, h, 0, 0); };
    const int runs = ceil_div(len, br / group);
    const auto queries = shape(batch, kv_heads, len * group, head_dim);
    const auto keys = shape(batch, kv_heads, blocks, head_dim);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(kv_heads).as("h"), parallel(runs).as("q")),
        in<T>("q", queries, block(squeezed, squeezed, br, bd), q_block).pad(0),
        in<T>("k_cmp", keys, block(squeezed, squeezed, bn, bd), of_head).pad(0),
        in<T>("v_cmp", keys, block(squeezed, squeezed, bn, bd), of_head).pad(0),
        out<T>("o", queries, block(squeezed, squeezed, br, bd), q_block),
        out<int>("ids", shape(batch, kv_heads, runs, 1, top),
                 block(squeezed, squeezed, squeezed, Int<1>{}, bt),
                 [](auto b, auto h, auto i) { return at(b, h, i, 0, 0); }),
        accum<float>("acc", br, bd));
  }

  /// Queries and results once; the compressed keys and values of a head once, or for each block of
  /// queries where none stays.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const std::int64_t each = std::int64_t{batch} * kv_heads;
    const std::int64_t rows = each * len * group;
    const int q_blocks = ceil_div(len, t[0] / group);
    const std::int64_t keys = each * (target.keeps_blocks ? 1 : q_blocks) * blocks;
    return {(rows + 2 * keys) * head_dim * kBytes<T>,
            rows * head_dim * kBytes<T> + each * q_blocks * top * kBytes<int>};
  }

  TESSERA_FN void operator()(auto& env, auto q, auto k_cmp, auto v_cmp, auto o, auto ids,
                             auto acc) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    const int g = group;
    const int each = block_len;
    const int each_run = q.rows / g;
    const auto first = env.program_id(2) * each_run;  // query; row r is of first + r / g
    const auto own = first / each;
    const auto there = (len - first) * g;             // rows of queries that there are
    const auto s = load(dot(*q, transpose(*k_cmp)));  // (br, bn) f32
    const auto seen = load(where_at(
        s, [=](auto r, auto c) { return ((c + 1) * each - 1 - first) * g <= r; }, kMinusInf));
    const auto most = load(row_max(seen));                            // (br, 1)
    const auto shift = where(most == kMinusInf, 0.f, most * -scale);  // no block yet
    const auto e = load(exp2(fma(seen, scale, shift)));               // (br, bn), in [0, 1]
    const auto sum = load(row_sum(e));                                // (br, 1)
    const auto p = load(e / where(sum == 0.f, 1.f, sum));             // (br, bn)
    *acc = 0.f;
    *acc += dot(cast<T>(p), *v_cmp);
    *o = cast<T>(*acc);  // (br, bd) T
    const auto score = load(col_sum(where_at(
        p, [=](auto r, auto) { return r < there; }, 0.f)));  // (1, bn)
    auto left = load(where_at(
        score, [=](auto, auto c) { return c < own; }, kMinusInf));
    const auto columns = col_ids(left);                               // (1, bn) i32
    auto chosen = load(full<int>(env, Int<1>{}, ids.cols, 0) + own);  // (1, bt) i32
    for (int j = 1; j < top; ++j) {
      const auto best = load(row_max(left));                                // (1, 1) f32
      const auto id = load(row_min(where(left == best, columns, blocks)));  // (1, 1) i32
      left = load(where(columns == id, kMinusInf, left));
      chosen = load(where(col_ids(chosen) == j, where(best == kMinusInf, -1, id), chosen));
    }
    *ids = chosen;
  }

  template <class Host>
  void prepare(Host&, Tiles t) {
    constexpr float kLog2E = 1.44269504f;
    scale = kLog2E / std::sqrt(static_cast<float>(head_dim));
    share = t[0] / group;
  }
};

}  // namespace tessera::kernels
