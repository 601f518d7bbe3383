// The gradients of attention (kernels/flash_attention.hpp) by its queries, keys and values, in one
// launch.
//
//   dq[i] = scale sum_j ds[i,j] k[j],   dk[j] = scale sum_i ds[i,j] q[i],   dv[j] = sum_i p[i,j]
//   dout[i]
//
// p and ds are those of kernels/flash_attention_dq.hpp (Dao, arXiv:2307.08691, algorithm 2), made
// once for all three, transposed. A cell has a run of bs keys of one key head, which stay in VMEM
// with the sums of their gradients; the queries of its heads go by, block after block, and of each
// the blocks of bk keys that it sees. dq is thereby a sum over the keys of a run in their order:
// the result where one run has all keys, else a part of it for each run (dq_parts), which split_sum
// adds in the runs' order. The same bits from every launch, without atomics.
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
struct FlashAttentionGrad : AttentionGradSizes {
  static constexpr KernelInfo info{
      .name = "flash_attention_grad",
      .summary = "gradients of attention by its queries, keys and values, in one launch",
      .math =
          "dq[i] = scale sum_j ds[i,j] k[j],  dk[j] = scale sum_i ds[i,j] q[i],  dv[j] = sum_i "
          "p[i,j] dout[i],  p = exp(s - lse),  ds = p (dout v^T - delta)",
      .cites = "arXiv:2307.08691"};
  static constexpr bool exchanges = true;

  int run_keys = 1;  ///< bs

  static constexpr auto tiles =
      tile_names(tile("bk"), tile("bq"), tile("bs"), tile("bd", "head_dim"), tile("biased", "bias"),
                 tile("dropped", "dropout"));
  static constexpr std::array cases{
      Case{"aligned, causal",
           {1, 2, 2, 256, 128, 32, 1, 0, 0, 0, 0, 0, 0, 0, 0},
           {32, 128, 128, 32, 0, 0}},
      Case{"ragged, grouped queries",
           {1, 4, 2, 100, 110, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0},
           {32, 128, 128, 32, 0, 0}},
      Case{"window, softcap, in parts",
           {1, 2, 1, 200, 200, 32, 0, 50, 20, 0, 0, 0, 0, 0, 0},
           {32, 128, 128, 32, 0, 0}},
      Case{"ragged lengths, causal window, in parts",
           {3, 1, 1, 128, 140, 32, 1, 40, 0, 1, 0, 0, 0, 0, 0},
           {32, 128, 128, 32, 0, 0}},
      Case{
          "segments", {2, 4, 2, 150, 100, 32, 1, 0, 0, 0, 1, 0, 0, 0, 0}, {32, 128, 128, 32, 0, 0}},
      Case{"bias, causal, in parts",
           {2, 2, 1, 100, 70, 32, 1, 0, 0, 0, 0, 1, 0, 0, 0},
           {32, 128, 64, 32, 1, 0}},
      Case{"bias of all entries",
           {2, 2, 2, 60, 50, 32, 0, 0, 15, 0, 0, 1, 0, 0, 1},
           {32, 128, 64, 32, 1, 0}},
      Case{"ragged, dropout, causal",
           {2, 2, 1, 100, 120, 32, 1, 0, 0, 0, 0, 0, 1, 0.1, 0},
           {32, 128, 128, 32, 0, 1}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 0, 0}}};

  const char* valid(Tiles t) const {
    if (t[2] % t[0] != 0) return "a run is of whole blocks of keys: bk divides bs";
    return fault(t[3], t[4], t[5]);
  }

  TESSERA_FN int runs(int bs) const { return ceil_div(kv_len, bs); }
  /// The blocks of keys of run `run` that a block of queries takes; at least one.
  TESSERA_FN auto blocks(auto b, auto run, auto qi, int bq, int bk, int bs) const {
    const int limit = causal != 0 ? 1 : window > 0 ? window : q_len + kv_len;
    auto key = seen().first_key(qi * bq);
    auto end_key = lesser(kv_lengths[b], lesser(qi * bq + bq, q_len) - 1 + limit);
    if (segments != 0) {
      const auto at = b * ceil_div(q_len, bq) + qi;
      key = greater(key, met_begin[at]);
      end_key = lesser(end_key, met_end[at]);
    }
    if (gives_bias_gradient()) {
      key = key * 0;
      end_key = end_key * 0 + kv_len;
    }
    const auto first = run * (bs / bk);
    const auto end = lesser(first + bs / bk, ceil_div(kv_len, bk));
    const auto lo = lesser(greater(key / bk, first), end - 1);
    const auto hi = greater(lesser(ceil_div(greater(end_key, 0), bk), end), lo + 1);
    return Met<std::remove_const_t<decltype(lo)>, std::remove_const_t<decltype(hi)>>{lo, hi};
  }

  TESSERA_FN auto spec(auto bk, auto bq, auto bs, auto bd, auto biased, auto dropped) const {
    const auto self = *this;
    const int group = heads / kv_heads;
    const int of_entry = bias_of_entries() ? 1 : 0;
    const int of_head = bias_of_heads() ? 1 : 0;
    auto run_block = [](auto b, auto h, auto run, auto, auto, auto) { return at(b, h, run, 0); };
    auto q_block = [group](auto b, auto h, auto, auto g, auto qi, auto) {
      return at(b, h * group + g, qi, 0);
    };
    auto row_block = [group](auto b, auto h, auto, auto g, auto qi, auto) {
      return at(b, h * group + g, 0, qi);
    };
    auto score_block = [group, of_entry, of_head](auto b, auto h, auto, auto g, auto qi, auto kv) {
      return at(b * of_entry, (h * group + g) * of_head, kv, qi);
    };
    const auto queries = shape(batch, heads, q_len, head_dim);
    const auto keys = shape(batch, kv_heads, kv_len, head_dim);
    const auto rows = shape(batch, heads, 1, q_len);
    const auto scores = shape(bias_batch(), bias_heads(), kv_len, q_len);
    const auto of_q = block(squeezed, squeezed, bq, bd);
    const auto of_run = block(squeezed, squeezed, bs, bd);
    const auto of_rows = block(squeezed, squeezed, Int<1>{}, bq);
    const auto of_scores = block(squeezed, squeezed, bk, bq);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(kv_heads).as("h"), parallel(runs(bs)).as("run"),
             arbitrary(group).as("g"), arbitrary(ceil_div(q_len, bq)).as("q"),
             arbitrary(
                 [self, bq, bk, bs](auto b, auto, auto run, auto, auto qi) {
                   return self.blocks(b, run, qi, bq, bk, bs).lo;
                 },
                 [self, bq, bk, bs](auto b, auto, auto run, auto, auto qi) {
                   return self.blocks(b, run, qi, bq, bk, bs).hi;
                 })
                 .as("kv")),
        scalars("kv_lengths", kv_lengths), scalars("kv_begin", met_begin),
        scalars("kv_end", met_end), in<T>("q", queries, of_q, q_block).pad(0),
        in<T>("k", keys, of_run, run_block).pad(0).buffered(1),
        in<T>("v", keys, of_run, run_block).pad(0).buffered(1),
        in<T>("dout", queries, of_q, q_block).pad(0),
        in<float>("lse", rows, of_rows, row_block).pad(0).uniform(4, 6),
        in<float>("delta", rows, of_rows, row_block).pad(0),
        in<int>("q_seg", shape(batch, 1, q_len), block(squeezed, Int<1>{}, bq),
                [](auto b, auto, auto, auto, auto qi, auto) { return at(b, 0, qi); })
            .pad(0)
            .when(segments != 0),
        in<int>("kv_seg", shape(batch, kv_len, 1), block(squeezed, bs, Int<1>{}),
                [](auto b, auto, auto run, auto, auto, auto) { return at(b, run, 0); })
            .pad(0)
            .when(segments != 0),
        in<T>("bias", scores, of_scores, score_block).pad(0).when(biased),
        seed_operand([](auto, auto, auto, auto, auto, auto) { return at(0, 0); }, dropped),
        out<T>("dq", queries, of_q, q_block).when(runs(bs) == 1),
        out<float>("dq_parts", shape(runs(bs), batch, heads, q_len, head_dim),
                   block(squeezed, squeezed, squeezed, bq, bd),
                   [group](auto b, auto h, auto run, auto g, auto qi, auto) {
                     return at(run, b, h * group + g, qi, 0);
                   })
            .when(runs(bs) > 1),
        out<T>("dk", keys, of_run, run_block), out<T>("dv", keys, of_run, run_block),
        out<T>("dbias", scores, of_scores, score_block).when(gives_bias_gradient()),
        accum<float>("part", bk, bd), vmem<float>("dq_sum", bq, bd), vmem<float>("dk_sum", bs, bd),
        vmem<float>("dv_sum", bs, bd));
  }

  /// k, v and their gradients once; what queries have once for each run, less one block that is
  /// still there from the run before; dq once, or in f32 for each run. Segment ids of queries
  /// likewise, for all key heads; a bias whenever a step wants another block of it; a seed once, or
  /// for each cell.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const int q_blocks = ceil_div(q_len, t[1]);
    const int all_runs = runs(t[2]);
    const int group = heads / kv_heads;
    const std::int64_t rows = std::int64_t{batch} * heads * q_len;
    const std::int64_t cells = std::int64_t{batch} * kv_heads * all_runs;
    const bool one_block = q_blocks == 1 && target.keeps_blocks;
    const std::int64_t q_rows = rows * (one_block && group == 1 ? 1 : all_runs);
    std::int64_t words = kv_lengths.size + met_begin.size + met_end.size;
    if (segments != 0) {
      words +=
          one_block ? std::int64_t{batch} * q_len : cells * q_len * (q_blocks == 1 ? 1 : group);
      words += std::int64_t{batch} * kv_len * (all_runs == 1 && target.keeps_blocks ? 1 : kv_heads);
    }
    if (dropout != 0) words += 2 * (target.keeps_blocks ? 1 : cells);
    BiasWalk scores{*this, t[0], t[1], kv_len, q_len};
    for (int cell = 0; bias != 0 && cell < cells; ++cell) {
      const int run = cell % all_runs;
      const int b = cell / all_runs / kv_heads;
      if (!target.keeps_blocks) scores.there = -1;
      for (int g = 0; g < group; ++g) {
        for (int qi = 0; qi < q_blocks; ++qi) {
          const auto [lo, hi] = blocks(b, run, qi, t[1], t[0], t[2]);
          const int h = cell / all_runs % kv_heads * group + g;
          for (int kv = lo; kv < hi; ++kv) scores.visit(b, h, kv, qi);
        }
      }
    }
    const std::int64_t added = scores.elems * kBytes<T>;
    const std::int64_t keys = 2 * std::int64_t{batch} * kv_heads * kv_len * head_dim * kBytes<T>;
    const std::int64_t dq =
        rows * head_dim * (all_runs == 1 ? kBytes<T> : all_runs * kBytes<float>);
    return {keys + 2 * q_rows * (head_dim * kBytes<T> + kBytes<float>)+added + words * kBytes<int>,
            keys + dq + (gives_bias_gradient() ? added : 0)};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class Dout, class Lse, class Delta, class QSeg,
            class KvSeg, class Bias, class Seed, class Dq, class DqParts, class Dk, class Dv,
            class Dbias, class Part, class DqSum, class DkSum, class DvSum>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, Dout dout, Lse lse, Delta delta, QSeg q_seg,
                             KvSeg kv_seg, Bias added, Seed seed, Dq dq, DqParts dq_parts, Dk dk,
                             Dv dv, Dbias dbias, Part part, DqSum dq_sum, DkSum dk_sum,
                             DvSum dv_sum) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    constexpr float kLog2E = 1.44269504f;
    const auto bk = added.rows;  // of the block of a bias, which lies beside the keys' there or not
    const auto first = env.program_id(2) * k.rows;  // key of the run
    const auto row0 = env.program_id(5) * bk - first;
    const auto k0 = env.program_id(5) * bk;
    const auto q0 = env.program_id(4) * q.rows;
    const auto length = kv_lengths[env.program_id(0)];
    const auto keys = seen();
    if (env.first(3) && env.first(4) && env.first(5)) {
      *dk_sum = 0.f;  // (bs, bd) f32
      *dv_sum = 0.f;  // (bs, bd) f32
    }
    if (env.first(5)) *dq_sum = 0.f;                     // (bq, bd) f32
    const auto key_rows = load(*k.row_range(row0, bk));  // (bk, bd) T
    auto s = load(dot(key_rows, transpose(*q)));         // (bk, bq) f32
    if (softcap > 0) s = tanh(s * (scale / softcap));
    const float factor = (softcap > 0 ? softcap : scale) * kLog2E;
    const auto shift = load(where(*lse == kMinusInf, 0.f, *lse * -kLog2E));  // (1, bq): sees none
    auto p = load(s * factor);                                               // (bk, bq)
    if (added.there()) p = p + cast<float>(*added) * kLog2E;
    p = exp2(p + shift);
    if (!keys.all_seen(length, q0, q.rows, k0, bk)) {
      p = where_at(
          p, [=](auto r, auto c) { return keys.sees(length, q0 + c, k0 + r); }, 0.f);
    }
    if (segments != 0) p = where(*kv_seg.row_range(row0, bk) == *q_seg, p, 0.f);
    const auto value_rows = load(*v.row_range(row0, bk));  // (bk, bd) T
    auto dp = load(dot(value_rows, transpose(*dout)));     // (bk, bq) f32
    auto weights = load(cast<T>(p));
    if (seed.there()) {
      const auto head = (env.program_id(0) * kv_heads + env.program_id(1)) * (heads / kv_heads) +
                        env.program_id(3);
      const auto stay = kept(seed, col_ids(s) + q0, row_ids(s) + k0, head);
      weights = load(cast<T>(where(stay, p * kept_scale, 0.f)));
      dp = where(stay, dp * kept_scale, 0.f);
    }
    *part = 0.f;
    *part += dot(weights, *dout);  // (bk, bd) f32
    *dv_sum.row_range(row0, bk) = *dv_sum.row_range(row0, bk) + *part;
    p = load(p * (dp - *delta));  // now ds
    if (added.there()) {
      if (gives_bias_gradient()) *dbias = cast<T>(p);  // (bk, bq) T
    }
    if (softcap > 0) p = load(p * (1.f - s * s));
    const auto ds = load(cast<T>(p));
    *part = 0.f;
    *part += dot(ds, *q);  // (bk, bd) f32
    *dk_sum.row_range(row0, bk) = *dk_sum.row_range(row0, bk) + *part;
    const auto by_queries = load(dot(transpose(ds), *k.row_range(row0, bk)));  // (bq, bd) f32
    *dq_sum = *dq_sum + by_queries;
    if (env.last(5)) {
      if (run_keys >= kv_len)
        *dq = cast<T>(*dq_sum * scale);  // (bq, bd) T
      else
        *dq_parts = *dq_sum * scale;
    }
    if (env.last(3) && env.last(4) && env.last(5)) {
      *dk = cast<T>(*dk_sum * scale);  // (bs, bd) T
      *dv = cast<T>(*dv_sum);          // (bs, bd) T
    }
  }

  template <class Host>
  void prepare(Host& host, Tiles t) {
    run_keys = t[2];
    prepare_blocks(host, t[1], false, true);
  }
};

}  // namespace tessera::kernels
