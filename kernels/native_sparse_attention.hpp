// Native sparse attention: blocks of keys that were selected for each query, those near it, and
// what the compressed keys gave, weighted by gates.
//
//   o[t,h] = g_slc[t,h] attend(q[t,h], S[t]) + g_win[t,h] attend(q[t,h], W[t]) + g_cmp[t,h]
//   part[t,h]
//   attend(q, K) = sum_{j in K} softmax_{j in K}(q . k[j] / sqrt(head_dim)) v[j], zero of no keys
//   S[t]: keys j <= t of the blocks ids[.., t / share, :];   W[t]: t - window < j <= t
//
// Yuan et al., arXiv:2502.11089, equations 5 to 12; blocks of all branches have bk keys. `part` and
// `ids` are what native_sparse_select makes; an id of -1 is none. The query heads of a key head are
// rows of one block, so that each block of keys is brought once for all of them, and once for both
// branches if both have it. br / group queries share a selection: 1 in the paper.
#pragma once

#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "sim/body/kernel.hpp"
#include "sim/body/smem.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/fma.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct NativeSparseAttention {
  static constexpr KernelInfo info{
      .name = "native_sparse_attention",
      .summary = "attention to selected blocks of keys, to near ones and to compressed ones, gated",
      .math =
          "o[t] = g_slc[t] attend(q[t], selected blocks) + g_win[t] attend(q[t], last window "
          "keys) + g_cmp[t] part[t],  attend: softmax(q . k / sqrt(head_dim)) v over keys j <= t",
      .cites = "arXiv:2502.11089"};

  int batch = 1;
  int kv_heads = 1;
  int group = 1;
  int len = 0;
  int head_dim = 0;
  int top = 1;
  int window = 0;
  int compressed = 0;
  int gated = 1;

  float scale = 0;           ///< of q . k, and of base 2: log2(e) / sqrt(head_dim)
  int share = 1;             ///< queries that share a selection: br / group
  int block_len = 1;         ///< bk
  Smem<int> ids;             ///< top blocks of keys for each block of queries, or -1
  Smem<int> visit_start;     ///< first visit of each block of queries, and their number
  Smem<int> visit_block;     ///< the block of keys of each
  Smem<int> visit_selected;  ///< 1: it was selected
  Smem<int> visit_near;      ///< 1: a query's window reaches it

  using Self = NativeSparseAttention;
  static constexpr auto sizes =
      params(size("batch", &Self::batch, "sequences"),
             size("kv_heads", &Self::kv_heads, "key and value heads"),
             size("group", &Self::group, "query heads of each"),
             size("len", &Self::len, "queries, and keys"),
             size("head_dim", &Self::head_dim, "columns of q, k, v and o"),
             size("top", &Self::top, "blocks selected for a block of queries (--input ids=)"),
             size("window", &Self::window, "last keys of the sliding branch; 0: without it"),
             size("compressed", &Self::compressed, "1: add input part, of the compressed branch"),
             size("gated", &Self::gated, "1: weigh branches by inputs g_slc, g_win and g_cmp"));
  static constexpr auto tiles = tile_names(tile("br"), tile("bk"), tile("bd", "head_dim"));
  static constexpr std::array cases{
      Case{"aligned", {1, 1, 16, 256, 64, 3, 70, 1, 1}, {64, 64, 64}},
      Case{"ragged", {2, 1, 8, 75, 64, 2, 20, 1, 1}, {32, 16, 64}},
      Case{"selection of every query", {1, 1, 16, 40, 64, 2, 0, 1, 1}, {16, 16, 64}},
      Case{"selected alone", {1, 2, 4, 192, 64, 2, 0, 0, 0}, {64, 64, 64}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1}}};

  const char* valid(Tiles t) const {
    if (t[0] % group != 0) return "blocks have all queries of a key head: br a multiple of group";
    if (t[2] < head_dim) return "bd must hold a whole row: bd >= head_dim";
    if (t[1] % (t[0] / group) != 0)
      return "queries that share a selection lie in one block of keys: br / group divides bk";
    return window >= 0 && top >= 1 ? nullptr : "window is 0 or more, top 1 or more";
  }

  TESSERA_FN auto spec(auto br, auto bk, auto bd) const {
    const auto start = visit_start;
    const auto key_block = visit_block;
    const int blocks = ceil_div(len, br / group);
    const int heads = kv_heads;
    const auto cell = [blocks, heads](auto b, auto h, auto i) {
      return (b * heads + h) * blocks + i;
    };
    auto q_block = [](auto b, auto h, auto i, auto) { return at(b, h, i, 0); };
    auto kv_block = [key_block](auto b, auto h, auto, auto visit) {
      return at(b, h, key_block[visit], 0);
    };
    const auto queries = shape(batch, kv_heads, len * group, head_dim);
    const auto gates = shape(batch, kv_heads, len * group, 1);
    const auto keys = shape(batch, kv_heads, len, head_dim);
    const auto of_q = block(squeezed, squeezed, br, bd);
    const auto of_gates = block(squeezed, squeezed, br, Int<1>{});
    const auto of_kv = block(squeezed, squeezed, bk, bd);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(kv_heads).as("h"), parallel(blocks).as("q"),
             arbitrary([start, cell](auto b, auto h, auto i) { return start[cell(b, h, i)]; },
                       [start, cell](auto b, auto h, auto i) { return start[cell(b, h, i) + 1]; })
                 .as("visit")),
        scalars("visit_start", visit_start), scalars("visit_block", visit_block),
        scalars("visit_selected", visit_selected), scalars("visit_near", visit_near),
        in<T>("q", queries, of_q, q_block).pad(0), in<T>("k", keys, of_kv, kv_block).pad(0),
        in<T>("v", keys, of_kv, kv_block).pad(0),
        in<T>("part", queries, of_q, q_block).pad(0).when(compressed != 0),
        in<float>("g_slc", gates, of_gates, q_block).pad(0).uniform(0, 1).when(gated != 0),
        in<float>("g_win", gates, of_gates, q_block)
            .pad(0)
            .uniform(0, 1)
            .when(gated != 0 && window > 0),
        in<float>("g_cmp", gates, of_gates, q_block)
            .pad(0)
            .uniform(0, 1)
            .when(gated != 0 && compressed != 0),
        out<T>("o", queries, of_q, q_block), accum<float>("acc", br, bd),
        accum<float>("m", br, Int<1>{}), accum<float>("l", br, Int<1>{}),
        accum<float>("near_acc", br, bd), accum<float>("near_m", br, Int<1>{}),
        accum<float>("near_l", br, Int<1>{}));
  }

  /// What queries have once; a block of keys and values whenever a visit wants another one; visits
  /// once. `ids` is the host's.
  Bytes hbm_bytes(Tiles t, Target target) const {
    std::int64_t kv_rows = 0;
    int there = -1;
    const int blocks = ceil_div(len, t[0] / group);
    for (int cell = 0; cell < batch * kv_heads * blocks; ++cell) {
      if (!target.keeps_blocks || cell % blocks == 0) there = -1;
      for (int visit = visit_start[cell]; visit < visit_start[cell + 1]; ++visit) {
        const int kv = visit_block[visit];
        if (kv != there) kv_rows += lesser((kv + 1) * t[1], len) - kv * t[1];
        there = kv;
      }
    }
    const std::int64_t rows = std::int64_t{batch} * kv_heads * len * group;
    const std::int64_t visits = std::int64_t{visit_start.size} + 3 * visit_block.size;
    const int gates = gated == 0 ? 0 : 1 + (window > 0 ? 1 : 0) + (compressed != 0 ? 1 : 0);
    return {((1 + (compressed != 0 ? 1 : 0)) * rows + 2 * kv_rows) * head_dim * kBytes<T> +
                gates * rows * kBytes<float> + visits * kBytes<int>,
            rows * head_dim * kBytes<T>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class Part, class GSlc, class GWin, class GCmp,
            class O, class Acc, class M, class L, class NearAcc, class NearM, class NearL>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, Part part, GSlc g_slc, GWin g_win, GCmp g_cmp,
                             O o, Acc acc, M m, L l, NearAcc near_acc, NearM near_m,
                             NearL near_l) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    const auto visit = env.program_id(3);
    if (env.first(3)) {
      *acc = 0.f;      // (br, bd) f32
      *m = kMinusInf;  // (br, 1)
      *l = 0.f;        // (br, 1)
      *near_acc = 0.f;
      *near_m = kMinusInf;
      *near_l = 0.f;
    }
    const int g = group;
    const int w = window;
    // Key 0 of the block, from the first of the queries; row r is of query r / g.
    const auto first = visit_block[visit] * k.rows - env.program_id(2) * (q.rows / g);
    auto s = load(dot(*q, transpose(*k)));  // (br, bk) f32
    if (first + k.rows > 1) {
      s = where_at(
          s, [=](auto r, auto c) { return (first + c) * g <= r; }, kMinusInf);
    }
    if (visit_selected[visit] != 0) attend(s, v, acc, m, l);
    if (w > 0) {
      if (visit_near[visit] != 0) {
        s = where_at(
            s, [=](auto r, auto c) { return (first + c + w) * g > r; }, kMinusInf);
        attend(s, v, near_acc, near_m, near_l);
      }
    }
    if (env.last(3)) {
      auto sum = load(*acc / where(*l == 0.f, 1.f, *l));  // (br, bd) f32
      if (gated != 0) sum = load(sum * *g_slc);
      if (w > 0) {
        auto near_sum = load(*near_acc / where(*near_l == 0.f, 1.f, *near_l));
        if (gated != 0) near_sum = load(near_sum * *g_win);
        sum = load(sum + near_sum);
      }
      if (compressed != 0) {
        auto of_part = load(cast<float>(*part));
        if (gated != 0) of_part = load(of_part * *g_cmp);
        sum = load(sum + of_part);
      }
      *o = cast<T>(sum);  // (br, bd) T
    }
  }

  /// A step of an online softmax: Milakov & Gimelshein, arXiv:1805.02867.
  template <class S, class V, class Acc, class M, class L>
  TESSERA_FN void attend(const S& s, V v, Acc acc, M m, L l) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    auto m_new = load(max(*m, row_max(s)));                       // (br, 1)
    auto shift = where(m_new == kMinusInf, 0.f, m_new * -scale);  // a row with no key yet
    auto p = load(exp2(fma(s, scale, shift)));                    // (br, bk), in [0, 1]
    auto rescale = exp2(fma(*m, scale, shift));                   // (br, 1)
    *l = *l * rescale + row_sum(p);
    *acc = *acc * rescale;
    *acc += dot(cast<T>(p), *v);  // (br, bd) f32
    *m = m_new;
  }

  /// Made-up ids: a block of queries' own, and others before it.
  template <class Host>
  void prepare(Host& host, Tiles t) {
    constexpr float kLog2E = 1.44269504f;
    scale = kLog2E / std::sqrt(static_cast<float>(head_dim));
    share = t[0] / group;
    block_len = t[1];
    const int q_blocks = ceil_div(len, share);
    const int cells = batch * kv_heads * q_blocks;
    const auto own = [&](int cell) { return cell % q_blocks * share / block_len; };
    std::vector<int> made;
    for (int cell = 0; cell < cells; ++cell) {
      std::vector<int> before;
      for (int id = 0; id < own(cell); ++id) before.push_back(id);
      made.push_back(own(cell));
      for (int j = 1; j < top; ++j) {
        if (before.empty()) {
          made.push_back(-1);
          continue;
        }
        const auto drawn = before.begin() + host.random(0, static_cast<int>(before.size()) - 1);
        made.push_back(*drawn);
        before.erase(drawn);
      }
    }
    ids = host.scalars("ids", std::move(made));
    if (ids.size != cells * top) host.fail("ids has top entries per block of queries");
    std::vector<int> start(1);
    std::vector<int> blocks;
    std::vector<int> selected;
    std::vector<int> near;
    for (int cell = 0; cell < cells; ++cell) {
      std::set<int> chosen;
      for (int j = 0; j < top; ++j) {
        const int id = ids[cell * top + j];
        if (id < -1 || id >= ceil_div(len, block_len)) host.fail("ids name blocks of keys, or -1");
        if (id >= 0 && id <= own(cell)) chosen.insert(id);
      }
      std::set<int> visited = chosen;
      const int reach = greater(cell % q_blocks * share - (window - 1), 0) / block_len;
      for (int near_one = reach; window > 0 && near_one <= own(cell); ++near_one)
        visited.insert(near_one);
      if (visited.empty()) visited.insert(own(cell));  // to write zeros
      for (const int id : visited) {
        blocks.push_back(id);
        selected.push_back(chosen.count(id) != 0 ? 1 : 0);
        near.push_back(window > 0 && id >= reach ? 1 : 0);
      }
      start.push_back(static_cast<int>(blocks.size()));
    }
    visit_start = host.keep("visit_start", std::move(start));
    visit_block = host.keep("visit_block", std::move(blocks));
    visit_selected = host.keep("visit_selected", std::move(selected));
    visit_near = host.keep("visit_near", std::move(near));
  }
};

}  // namespace tessera::kernels
