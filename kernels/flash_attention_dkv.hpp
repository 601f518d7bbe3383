// The gradients of attention (kernels/flash_attention.hpp) by its keys and values.
//
//   dk[j] = scale sum_i ds[i,j] q[i],   dv[j] = sum_i p[i,j] dout[i]
//
// p and ds are those of kernels/flash_attention_dq.hpp (Dao, arXiv:2307.08691, algorithm 2), made
// transposed: keys are the rows, so that both are left factors as they are computed. The query
// heads of a key head go by one after the other; of each, the blocks with a query that sees one of
// the keys. A bias, as lse and delta, lies with queries along its rows. With dropout dv has the
// weights that are kept, and dout v^T in ds likewise.
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
struct FlashAttentionDkv : AttentionGradSizes {
  static constexpr KernelInfo info{
      .name = "flash_attention_dkv",
      .summary = "gradients of attention by its keys and values",
      .math =
          "dk[j] = scale sum_i ds[i,j] q[i],  dv[j] = sum_i p[i,j] dout[i],  p = exp(s - lse),  ds "
          "= p (dout v^T - delta)",
      .cites = "arXiv:2307.08691"};

  static constexpr auto tiles = tile_names(tile("bk"), tile("bq"), tile("bd", "head_dim"),
                                           tile("biased", "bias"), tile("dropped", "dropout"));
  static constexpr std::array cases{
      Case{"aligned, causal",
           {1, 2, 2, 256, 256, 64, 1, 0, 0, 0, 0, 0, 0, 0, 0},
           {32, 128, 64, 0, 0}},
      Case{"ragged, grouped queries",
           {1, 4, 2, 100, 150, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0},
           {32, 128, 64, 0, 0}},
      Case{"window, softcap",
           {1, 2, 1, 200, 200, 64, 0, 50, 20, 0, 0, 0, 0, 0, 0},
           {32, 128, 64, 0, 0}},
      Case{"ragged lengths, causal window",
           {3, 1, 1, 128, 128, 64, 1, 40, 0, 1, 0, 0, 0, 0, 0},
           {32, 128, 64, 0, 0}},
      Case{"segments", {2, 4, 2, 150, 200, 64, 1, 0, 0, 0, 1, 0, 0, 0, 0}, {32, 128, 64, 0, 0}},
      Case{"bias, causal", {2, 2, 1, 100, 70, 64, 1, 0, 0, 0, 0, 1, 0, 0, 0}, {32, 128, 64, 1, 0}},
      Case{"bias, softcap",
           {1, 2, 2, 64, 128, 64, 0, 30, 15, 1, 0, 1, 0, 0, 0},
           {32, 128, 64, 1, 0}},
      Case{"bias of all entries and heads",
           {2, 2, 1, 60, 100, 64, 1, 0, 0, 0, 0, 1, 0, 0, 3},
           {32, 128, 64, 1, 0}},
      Case{"ragged, dropout, causal",
           {2, 2, 1, 100, 130, 64, 1, 0, 0, 0, 0, 0, 1, 0.1, 0},
           {32, 128, 64, 0, 1}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 0, 0}}};

  const char* valid(Tiles t) const { return fault(t[2], t[3], t[4]); }

  TESSERA_FN auto spec(auto bk, auto bq, auto bd, auto biased, auto dropped) const {
    const auto self = *this;
    const int group = heads / kv_heads;
    const int of_entry = bias_of_entries() ? 1 : 0;
    const int of_head = bias_of_heads() ? 1 : 0;
    auto kv_block = [](auto b, auto h, auto kv, auto, auto) { return at(b, h, kv, 0); };
    auto q_block = [group](auto b, auto h, auto, auto g, auto qi) {
      return at(b, h * group + g, qi, 0);
    };
    auto row_block = [group](auto b, auto h, auto, auto g, auto qi) {
      return at(b, h * group + g, 0, qi);
    };
    const auto queries = shape(batch, heads, q_len, head_dim);
    const auto keys = shape(batch, kv_heads, kv_len, head_dim);
    const auto rows = shape(batch, heads, 1, q_len);
    const auto of_q = block(squeezed, squeezed, bq, bd);
    const auto of_kv = block(squeezed, squeezed, bk, bd);
    const auto of_rows = block(squeezed, squeezed, Int<1>{}, bq);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(kv_heads).as("h"),
             parallel(ceil_div(kv_len, bk)).as("kv"), arbitrary(group).as("g"),
             arbitrary([self, bk, bq](auto b, auto, auto kv,
                                      auto) { return self.blocks_of_queries(b, kv, bk, bq).lo; },
                       [self, bk, bq](auto b, auto, auto kv, auto) {
                         return self.blocks_of_queries(b, kv, bk, bq).hi;
                       })
                 .as("q")),
        scalars("kv_lengths", kv_lengths), scalars("q_begin", met_begin), scalars("q_end", met_end),
        in<T>("q", queries, of_q, q_block).pad(0), in<T>("k", keys, of_kv, kv_block).pad(0),
        in<T>("v", keys, of_kv, kv_block).pad(0), in<T>("dout", queries, of_q, q_block).pad(0),
        in<float>("lse", rows, of_rows, row_block).pad(0).uniform(4, 6),
        in<float>("delta", rows, of_rows, row_block).pad(0),
        in<int>("q_seg", shape(batch, 1, q_len), block(squeezed, Int<1>{}, bq),
                [](auto b, auto, auto, auto, auto qi) { return at(b, 0, qi); })
            .pad(0)
            .when(segments != 0),
        in<int>("kv_seg", shape(batch, kv_len, 1), block(squeezed, bk, Int<1>{}),
                [](auto b, auto, auto kv, auto, auto) { return at(b, kv, 0); })
            .when(segments != 0),
        in<T>("bias", shape(bias_batch(), bias_heads(), kv_len, q_len),
              block(squeezed, squeezed, bk, bq),
              [group, of_entry, of_head](auto b, auto h, auto kv, auto g, auto qi) {
                return at(b * of_entry, (h * group + g) * of_head, kv, qi);
              })
            .pad(0)
            .when(biased),
        seed_operand([](auto, auto, auto, auto, auto) { return at(0, 0); }, dropped),
        out<T>("dk", keys, of_kv, kv_block), out<T>("dv", keys, of_kv, kv_block),
        accum<float>("dk_sum", bk, bd), accum<float>("dv_sum", bk, bd));
  }

  /// k, v, dk and dv once. What queries have: the visited blocks of each block of keys, for every
  /// head of the group, less a first block that is still there from the block of keys before. A
  /// seed once, or for each cell.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const int kv_blocks = ceil_div(kv_len, t[0]);
    const int group = heads / kv_heads;
    std::int64_t q_rows = 0;
    BiasWalk scores{*this, t[0], t[1], kv_len, q_len};
    for (int b = 0; b < batch; ++b) {
      int there = -1;
      for (int kv = 0; kv < kv_blocks; ++kv) {
        const auto [lo, hi] = blocks_of_queries(b, kv, t[0], t[1]);
        const bool stays = target.keeps_blocks && group == 1 && there == lo;
        q_rows += heads * met_elems(lo, hi, q_len, t[1], stays);
        there = hi - 1;
      }
      for (int cell = 0; cell < kv_heads * kv_blocks; ++cell) {  // walked as the grid goes
        const int kv = cell % kv_blocks;
        const auto [lo, hi] = blocks_of_queries(b, kv, t[0], t[1]);
        if (!target.keeps_blocks) scores.there = -1;
        for (int g = 0; g < group; ++g) {
          for (int qi = lo; qi < hi; ++qi) scores.visit(b, cell / kv_blocks * group + g, kv, qi);
        }
      }
    }
    std::int64_t ids = 0;  // walked as the grid goes
    for (int b = 0; segments != 0 && b < batch; ++b) {
      int there = -1;
      for (int cell = 0; cell < kv_heads * kv_blocks; ++cell) {
        if (!target.keeps_blocks) there = -1;
        const auto [lo, hi] = blocks_of_queries(b, cell % kv_blocks, t[0], t[1]);
        for (int g = 0; g < group; ++g) {
          ids += met_elems(lo, hi, q_len, t[1], there == lo);
          there = hi - 1;
        }
      }
      ids += std::int64_t{kv_len} * (kv_blocks == 1 && target.keeps_blocks ? 1 : kv_heads);
    }
    const std::int64_t keys = 2 * std::int64_t{batch} * kv_heads * kv_len * head_dim * kBytes<T>;
    const std::int64_t cells = target.keeps_blocks ? 1 : std::int64_t{batch} * kv_heads * kv_blocks;
    const std::int64_t seed = dropout != 0 ? 2 * cells : 0;
    return {keys + (bias != 0 ? scores.elems * kBytes<T> : 0) +
                2 * q_rows *
                    (head_dim * kBytes<T> + kBytes<float>)+(kv_lengths.size + met_begin.size +
                                                            met_end.size + ids + seed) *
                    kBytes<int>,
            keys};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class Dout, class Lse, class Delta, class QSeg,
            class KvSeg, class Bias, class Seed, class Dk, class Dv, class DkSum, class DvSum>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, Dout dout, Lse lse, Delta delta, QSeg q_seg,
                             KvSeg kv_seg, Bias added, Seed seed, Dk dk, Dv dv, DkSum dk_sum,
                             DvSum dv_sum) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    constexpr float kLog2E = 1.44269504f;
    const auto k0 = env.program_id(2) * k.rows;
    const auto q0 = env.program_id(4) * q.rows;
    const auto length = kv_lengths[env.program_id(0)];
    const auto keys = seen();
    if (env.first(3) && env.first(4)) {
      *dk_sum = 0.f;  // (bk, bd) f32
      *dv_sum = 0.f;  // (bk, bd) f32
    }
    auto p = load(dot(*k, transpose(*q)));  // scores, (bk, bq) f32
    if (softcap > 0) p = tanh(p * (scale / softcap));
    const float factor = (softcap > 0 ? softcap : scale) * kLog2E;
    const auto shift = load(where(*lse == kMinusInf, 0.f, *lse * -kLog2E));  // (1, bq): sees none
    p = load(p * factor);
    if (added.there()) p = p + cast<float>(*added) * kLog2E;
    p = exp2(p + shift);
    if (!keys.all_seen(length, q0, q.rows, k0, k.rows)) {
      p = where_at(
          p, [=](auto r, auto c) { return keys.sees(length, q0 + c, k0 + r); }, 0.f);
    }
    if (segments != 0) p = where(*kv_seg == *q_seg, p, 0.f);  // (bk, 1) == (1, bq)
    // dv first, and scores with a cap a second time: one tile less lives beside the two sums.
    if (seed.there()) {
      const auto head = (env.program_id(0) * kv_heads + env.program_id(1)) * (heads / kv_heads) +
                        env.program_id(3);
      const auto stay = kept(seed, col_ids(p) + q0, row_ids(p) + k0, head);
      *dv_sum += dot(cast<T>(where(stay, p * kept_scale, 0.f)), *dout);
      const auto dp = load(dot(*v, transpose(*dout)));             // (bk, bq) f32
      p = load(p * (where(stay, dp * kept_scale, 0.f) - *delta));  // now ds
    } else {
      *dv_sum += dot(cast<T>(p), *dout);  // (bk, bd) f32
      const auto dp = load(dot(*v, transpose(*dout)));
      p = load(p * (dp - *delta));
    }
    if (softcap > 0) {
      auto capped = load(dot(*k, transpose(*q)));
      capped = tanh(capped * (scale / softcap));
      p = load(p * (1.f - capped * capped));
    }
    *dk_sum += dot(cast<T>(p), *q);  // (bk, bd) f32
    if (env.last(3) && env.last(4)) {
      *dk = cast<T>(*dk_sum * scale);  // (bk, bd) T
      *dv = cast<T>(*dv_sum);          // (bk, bd) T
    }
  }

  template <class Host>
  void prepare(Host& host, Tiles t) {
    prepare_blocks(host, t[0], true);
  }
};

}  // namespace tessera::kernels
