// The gradient of attention (kernels/flash_attention.hpp) by its queries.
//
//   dq[i] = scale sum_j ds[i,j] k[j],   ds[i,j] = p[i,j] (dout[i] . v[j] - delta[i]) cap'
//   p[i,j] = exp(s[i,j] - lse[i]),   s[i,j] = cap(scale q[i] . k[j]),   cap' = 1 - (s[i,j] /
//   softcap)^2 if softcap > 0, else 1
//   bias: p[i,j] = exp(s[i,j] + bias[i,j] - lse[i]),   dbias[i,j] = p[i,j] (dout[i] . v[j] -
//   delta[i])
//
// Dao, arXiv:2307.08691, algorithm 2, whose other half is kernels/flash_attention_dkv.hpp. lse[i]
// is the forward pass's log-sum-exp of the scores, delta[i] = dout[i] . o[i]: scores are made
// again, and none leaves VMEM. Masks, grouped heads, dropped weights and the blocks that are
// visited are the forward pass's; with a bias of each entry and head all blocks, since its gradient
// is 0 where a mask is. Where entries or heads share a bias, flash_attention_dbias gives its
// gradient.
#pragma once

#include <limits>

#include "kernels/attention_sizes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/tanh.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct FlashAttentionDq : AttentionGradSizes {
  static constexpr KernelInfo info{
      .name = "flash_attention_dq",
      .summary = "gradient of attention by its queries",
      .math =
          "dq[i] = scale sum_j ds[i,j] k[j],  ds[i,j] = exp(s[i,j] - lse[i]) (dout[i] . v[j] - "
          "delta[i])",
      .cites = "arXiv:2307.08691"};

  static constexpr auto tiles = tile_names(tile("bq"), tile("bk"), tile("bd", "head_dim"),
                                           tile("biased", "bias"), tile("dropped", "dropout"));
  static constexpr std::array cases{
      Case{"aligned, causal",
           {1, 2, 2, 256, 256, 64, 1, 0, 0, 0, 0, 0, 0, 0, 0},
           {64, 64, 64, 0, 0}},
      Case{"ragged, grouped queries",
           {1, 4, 2, 100, 150, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0},
           {64, 64, 64, 0, 0}},
      Case{"window, softcap",
           {1, 2, 1, 200, 200, 64, 0, 50, 20, 0, 0, 0, 0, 0, 0},
           {64, 64, 64, 0, 0}},
      Case{"ragged lengths, causal window",
           {3, 1, 1, 128, 128, 64, 1, 40, 0, 1, 0, 0, 0, 0, 0},
           {64, 64, 64, 0, 0}},
      Case{"segments", {2, 4, 2, 150, 64, 64, 0, 0, 0, 0, 1, 0, 0, 0, 0}, {64, 64, 64, 0, 0}},
      Case{"bias, causal", {2, 2, 1, 100, 200, 64, 1, 0, 0, 0, 0, 1, 0, 0, 0}, {64, 128, 64, 1, 0}},
      Case{"bias, softcap",
           {1, 2, 2, 64, 256, 64, 0, 30, 15, 1, 0, 1, 0, 0, 0},
           {64, 128, 64, 1, 0}},
      Case{"bias of all heads",
           {2, 2, 1, 60, 100, 64, 1, 0, 0, 0, 0, 1, 0, 0, 2},
           {64, 128, 64, 1, 0}},
      Case{"ragged, dropout, causal",
           {2, 2, 1, 100, 130, 64, 1, 0, 0, 0, 0, 0, 1, 0.1, 0},
           {64, 64, 64, 0, 1}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 0, 0}}};

  const char* valid(Tiles t) const { return fault(t[2], t[3], t[4]); }

  /// The kv blocks of a block of queries.
  TESSERA_FN auto blocks(auto b, auto qi, int bq, int bk) const {
    auto met = blocks_of_keys(b, qi, bq, bk);
    if (gives_bias_gradient()) {
      met.lo = lesser(met.lo, 0);
      met.hi = greater(met.hi, ceil_div(kv_len, bk));
    }
    return met;
  }

  TESSERA_FN auto spec(auto bq, auto bk, auto bd, auto biased, auto dropped) const {
    const auto self = *this;
    const int group = heads / kv_heads;
    const int of_entry = bias_of_entries() ? 1 : 0;
    const int of_head = bias_of_heads() ? 1 : 0;
    auto q_block = [](auto b, auto h, auto qi, auto) { return at(b, h, qi, 0); };
    auto kv_block = [group](auto b, auto h, auto, auto kv) { return at(b, h / group, kv, 0); };
    const auto queries = shape(batch, heads, q_len, head_dim);
    const auto keys = shape(batch, kv_heads, kv_len, head_dim);
    const auto rows = shape(batch, heads, q_len, 1);
    const auto of_q = block(squeezed, squeezed, bq, bd);
    const auto of_kv = block(squeezed, squeezed, bk, bd);
    const auto of_rows = block(squeezed, squeezed, bq, Int<1>{});
    const auto scores = shape(bias_batch(), bias_heads(), q_len, kv_len);
    const auto of_scores = block(squeezed, squeezed, bq, bk);
    auto score_block = [of_entry, of_head](auto b, auto h, auto qi, auto kv) {
      return at(b * of_entry, h * of_head, qi, kv);
    };
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(heads).as("h"),
             parallel(ceil_div(q_len, bq)).as("q"),
             arbitrary(
                 [self, bq, bk](auto b, auto, auto qi) { return self.blocks(b, qi, bq, bk).lo; },
                 [self, bq, bk](auto b, auto, auto qi) { return self.blocks(b, qi, bq, bk).hi; })
                 .as("kv")),
        scalars("kv_lengths", kv_lengths), scalars("kv_begin", met_begin),
        scalars("kv_end", met_end), in<T>("q", queries, of_q, q_block).pad(0),
        in<T>("k", keys, of_kv, kv_block).pad(0), in<T>("v", keys, of_kv, kv_block).pad(0),
        in<T>("dout", queries, of_q, q_block).pad(0),
        in<float>("lse", rows, of_rows, q_block).pad(0).uniform(4, 6),
        in<float>("delta", rows, of_rows, q_block).pad(0),
        in<int>("q_seg", shape(batch, q_len, 1), block(squeezed, bq, Int<1>{}),
                [](auto b, auto, auto qi, auto) { return at(b, qi, 0); })
            .when(segments != 0),
        in<int>("kv_seg", shape(batch, 1, kv_len), block(squeezed, Int<1>{}, bk),
                [](auto b, auto, auto, auto kv) { return at(b, 0, kv); })
            .pad(0)
            .when(segments != 0),
        in<T>("bias", scores, of_scores, score_block).pad(0).when(biased),
        seed_operand([](auto, auto, auto, auto) { return at(0, 0); }, dropped),
        out<T>("dq", queries, of_q, q_block),
        out<T>("dbias", scores, of_scores, score_block).when(gives_bias_gradient()),
        accum<float>("acc", bq, bd));
  }

  /// q, dout, dq and what rows have once. k and v: the visited blocks of each block of queries,
  /// less a first block that is still there from the block of queries (or head of the group)
  /// before. A bias of each entry and head, and its gradient, once; one that is shared as in the
  /// forward pass. A seed once, or for each cell.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const int q_blocks = ceil_div(q_len, t[0]);
    std::int64_t kv_rows = 0;
    std::int64_t seg_keys = 0;
    int there = -1;
    BiasWalk scores{*this, t[0], t[1], q_len, kv_len};
    for (int b = 0; b < batch; ++b) {
      int seg_there = -1;
      for (int h = 0; h < heads; ++h) {
        if (h % (heads / kv_heads) == 0) there = -1;
        for (int qi = 0; qi < q_blocks; ++qi) {
          const auto [lo, hi] = blocks(b, qi, t[0], t[1]);
          kv_rows += met_elems(lo, hi, kv_len, t[1], target.keeps_blocks && there == lo);
          seg_keys += met_elems(lo, hi, kv_len, t[1], target.keeps_blocks && seg_there == lo);
          there = seg_there = hi - 1;
          if (!target.keeps_blocks) scores.there = -1;
          for (int kv = lo; kv < hi; ++kv) scores.visit(b, h, qi, kv);
        }
      }
    }
    const std::int64_t rows = std::int64_t{batch} * heads * q_len;
    const bool q_seg_stays = q_blocks == 1 && target.keeps_blocks;
    const std::int64_t ids =
        segments != 0 ? (q_seg_stays ? std::int64_t{batch} * q_len : rows) + seg_keys : 0;
    const std::int64_t added = bias != 0 ? scores.elems * kBytes<T> : 0;
    const std::int64_t cells = target.keeps_blocks ? 1 : std::int64_t{batch} * heads * q_blocks;
    const std::int64_t seed = dropout != 0 ? 2 * cells : 0;
    return {2 * (rows + kv_rows) * head_dim * kBytes<T> + 2 * rows * kBytes<float> + added +
                (kv_lengths.size + met_begin.size + met_end.size + ids + seed) * kBytes<int>,
            rows * head_dim * kBytes<T> + (gives_bias_gradient() ? added : 0)};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class Dout, class Lse, class Delta, class QSeg,
            class KvSeg, class Bias, class Seed, class Dq, class Dbias, class Acc>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, Dout dout, Lse lse, Delta delta, QSeg q_seg,
                             KvSeg kv_seg, Bias added, Seed seed, Dq dq, Dbias dbias,
                             Acc acc) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    constexpr float kLog2E = 1.44269504f;
    const auto q0 = env.program_id(2) * q.rows;
    const auto k0 = env.program_id(3) * k.rows;
    const auto length = kv_lengths[env.program_id(0)];
    const auto keys = seen();
    if (env.first(3)) *acc = 0.f;           // (bq, bd) f32
    auto p = load(dot(*q, transpose(*k)));  // scores, (bq, bk) f32
    if (softcap > 0) p = tanh(p * (scale / softcap));
    const float factor = (softcap > 0 ? softcap : scale) * kLog2E;
    const auto shift = load(where(*lse == kMinusInf, 0.f, *lse * -kLog2E));  // (bq, 1): sees none
    p = load(p * factor);
    if (added.there()) p = p + cast<float>(*added) * kLog2E;
    p = exp2(p + shift);
    if (!keys.all_seen(length, q0, q.rows, k0, k.rows)) {
      p = where_at(
          p, [=](auto r, auto c) { return keys.sees(length, q0 + r, k0 + c); }, 0.f);
    }
    if (segments != 0) p = where(*q_seg == *kv_seg, p, 0.f);  // (bq, 1) == (1, bk)
    auto dp = load(dot(*dout, transpose(*v)));                // (bq, bk) f32
    if (seed.there()) {
      dp = where(kept(seed, row_ids(p) + q0, col_ids(p) + k0,
                      env.program_id(0) * heads + env.program_id(1)),
                 dp * kept_scale, 0.f);
    }
    p = load(p * (dp - *delta));  // now ds
    if (added.there()) {
      if (gives_bias_gradient()) *dbias = cast<T>(p);  // (bq, bk) T
    }
    if (softcap > 0) {  // scores are made a second time: they would fill registers until here
      auto capped = load(dot(*q, transpose(*k)));
      capped = tanh(capped * (scale / softcap));
      p = load(p * (1.f - capped * capped));
    }
    *acc += dot(cast<T>(p), *k);                   // (bq, bd) f32
    if (env.last(3)) *dq = cast<T>(*acc * scale);  // (bq, bd) T
  }

  template <class Host>
  void prepare(Host& host, Tiles t) {
    prepare_blocks(host, t[0], false);
  }
};

}  // namespace tessera::kernels
