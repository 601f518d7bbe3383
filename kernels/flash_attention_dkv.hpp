// The gradients of attention (kernels/flash_attention.hpp) by its keys and values.
//
//   dk[j] = scale sum_i ds[i,j] q[i],   dv[j] = sum_i p[i,j] dout[i]
//
// p and ds are those of kernels/flash_attention_dq.hpp (Dao, arXiv:2307.08691, algorithm 2), made
// transposed: keys are the rows, so that both are left factors as they are computed. The query
// heads of a key head go by one after the other; of each, the blocks with a query that sees one of
// the keys. A bias, as lse and delta, lies with queries along its rows.
#pragma once

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/attention_blocks.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/tanh.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct FlashAttentionDkv {
  static constexpr KernelInfo info{
      .name = "flash_attention_dkv",
      .summary = "gradients of attention by its keys and values",
      .math =
          "dk[j] = scale sum_i ds[i,j] q[i],  dv[j] = sum_i p[i,j] dout[i],  p = exp(s - lse),  ds "
          "= p (dout v^T - delta)",
      .cites = "arXiv:2307.08691"};

  int batch = 1;
  int heads = 1;
  int kv_heads = 1;
  int q_len = 0;
  int kv_len = 0;
  int head_dim = 0;
  int causal = 0;
  int window = 0;
  float softcap = 0;
  int ragged = 0;
  int segments = 0;
  int bias = 0;

  float scale = 0;       ///< of q . k, 1 / sqrt(head_dim)
  Smem<int> kv_lengths;  ///< keys of each batch entry
  Smem<int> q_begin;     ///< first query that may see a block of keys by its segments
  Smem<int> q_end;       ///< one past the last

  static constexpr auto sizes = params(
      size("batch", &FlashAttentionDkv::batch, "sequences"),
      size("heads", &FlashAttentionDkv::heads, "query heads"),
      size("kv_heads", &FlashAttentionDkv::kv_heads, "key and value heads; divides heads"),
      size("q_len", &FlashAttentionDkv::q_len, "queries"),
      size("kv_len", &FlashAttentionDkv::kv_len, "keys"),
      size("head_dim", &FlashAttentionDkv::head_dim, "columns of q, k, v, dout, dk and dv"),
      size("causal", &FlashAttentionDkv::causal, "1: no key after the query"),
      size("window", &FlashAttentionDkv::window, "keys seen on each side, itself included; 0: all"),
      size("softcap", &FlashAttentionDkv::softcap, "bound of the scores; 0: none"),
      size("ragged", &FlashAttentionDkv::ragged, "1: uneven kv_lengths (or --input kv_lengths=)"),
      size("segments", &FlashAttentionDkv::segments, "1: equal ids alone see each other"),
      size("bias", &FlashAttentionDkv::bias,
           "1: added to the scores, input bias: (batch, heads, kv_len, q_len)"));
  static constexpr auto tiles =
      tile_names(tile("bk"), tile("bq"), tile("bd", "head_dim"), tile("biased", "bias"));
  static constexpr std::array cases{
      Case{"aligned, causal", {1, 2, 2, 256, 256, 64, 1, 0, 0, 0, 0, 0}, {32, 128, 64, 0}},
      Case{"ragged, grouped queries", {1, 4, 2, 100, 150, 64, 0, 0, 0, 0, 0, 0}, {32, 128, 64, 0}},
      Case{"window, softcap", {1, 2, 1, 200, 200, 64, 0, 50, 20, 0, 0, 0}, {32, 128, 64, 0}},
      Case{"ragged lengths, causal window",
           {3, 1, 1, 128, 128, 64, 1, 40, 0, 1, 0, 0},
           {32, 128, 64, 0}},
      Case{"segments", {2, 4, 2, 150, 200, 64, 1, 0, 0, 0, 1, 0}, {32, 128, 64, 0}},
      Case{"bias, causal", {2, 2, 1, 100, 70, 64, 1, 0, 0, 0, 0, 1}, {32, 128, 64, 1}},
      Case{"bias, softcap", {1, 2, 2, 64, 128, 64, 0, 30, 15, 1, 0, 1}, {32, 128, 64, 1}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0}, {1, 1, 1, 0}}};

  const char* valid(Tiles t) const {
    if (t[2] < head_dim) return "bd must hold a whole row: bd >= head_dim";
    if (heads % kv_heads != 0) return "kv_heads must divide heads";
    return t[3] == bias ? nullptr : "a build has a bias, or has none: biased = bias, 0 or 1";
  }

  TESSERA_FN SeenKeys seen() const { return {q_len, kv_len, causal != 0, window}; }
  /// The blocks of queries of a block of keys.
  TESSERA_FN auto blocks(auto b, auto kv, int bk, int bq) const {
    auto first = seen().first_query(kv * bk);
    auto end = seen().end_query(kv_lengths[b], kv * bk, bk);
    if (segments != 0) {
      const auto at = b * ceil_div(kv_len, bk) + kv;
      first = greater(first, q_begin[at]);
      end = lesser(end, q_end[at]);
    }
    return met_blocks(first, end, q_len, bq);
  }

  TESSERA_FN auto spec(auto bk, auto bq, auto bd, auto biased) const {
    const auto self = *this;
    const int group = heads / kv_heads;
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
                                      auto) { return self.blocks(b, kv, bk, bq).lo; },
                       [self, bk, bq](auto b, auto, auto kv, auto) {
                         return self.blocks(b, kv, bk, bq).hi;
                       })
                 .as("q")),
        scalars("kv_lengths", kv_lengths), scalars("q_begin", q_begin), scalars("q_end", q_end),
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
        in<T>("bias", shape(batch, heads, kv_len, q_len), block(squeezed, squeezed, bk, bq),
              [group](auto b, auto h, auto kv, auto g, auto qi) {
                return at(b, h * group + g, kv, qi);
              })
            .pad(0)
            .when(biased),
        out<T>("dk", keys, of_kv, kv_block), out<T>("dv", keys, of_kv, kv_block),
        accum<float>("dk_sum", bk, bd), accum<float>("dv_sum", bk, bd));
  }

  /// k, v, dk and dv once. What queries have: the visited blocks of each block of keys, for every
  /// head of the group, less a first block that is still there from the block of keys before.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const int kv_blocks = ceil_div(kv_len, t[0]);
    const int group = heads / kv_heads;
    std::int64_t q_rows = 0;
    std::int64_t scores = 0;
    for (int b = 0; b < batch; ++b) {
      int there = -1;
      for (int kv = 0; kv < kv_blocks; ++kv) {
        const auto [lo, hi] = blocks(b, kv, t[0], t[1]);
        const bool stays = target.keeps_blocks && group == 1 && there == lo;
        q_rows += heads * met_elems(lo, hi, q_len, t[1], stays);
        const int rows = lesser((kv + 1) * t[0], kv_len) - kv * t[0];
        if (bias != 0) scores += std::int64_t{heads} * rows * met_elems(lo, hi, q_len, t[1], false);
        there = hi - 1;
      }
    }
    std::int64_t ids = 0;  // walked as the grid goes
    for (int b = 0; segments != 0 && b < batch; ++b) {
      int there = -1;
      for (int cell = 0; cell < kv_heads * kv_blocks; ++cell) {
        if (!target.keeps_blocks) there = -1;
        const auto [lo, hi] = blocks(b, cell % kv_blocks, t[0], t[1]);
        for (int g = 0; g < group; ++g) {
          ids += met_elems(lo, hi, q_len, t[1], there == lo);
          there = hi - 1;
        }
      }
      ids += std::int64_t{kv_len} * (kv_blocks == 1 && target.keeps_blocks ? 1 : kv_heads);
    }
    const std::int64_t keys = 2 * std::int64_t{batch} * kv_heads * kv_len * head_dim * kBytes<T>;
    return {keys + scores * kBytes<T> +
                2 * q_rows *
                    (head_dim * kBytes<T> + kBytes<float>)+(kv_lengths.size + q_begin.size +
                                                            q_end.size + ids) *
                    kBytes<int>,
            keys};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class Dout, class Lse, class Delta, class QSeg,
            class KvSeg, class Bias, class Dk, class Dv, class DkSum, class DvSum>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, Dout dout, Lse lse, Delta delta, QSeg q_seg,
                             KvSeg kv_seg, Bias added, Dk dk, Dv dv, DkSum dk_sum,
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
    auto s = load(dot(*k, transpose(*q)));  // (bk, bq) f32
    if (softcap > 0) s = tanh(s * (scale / softcap));
    const float factor = (softcap > 0 ? softcap : scale) * kLog2E;
    const auto shift = load(where(*lse == kMinusInf, 0.f, *lse * -kLog2E));  // (1, bq): sees none
    auto p = load(s * factor);                                               // (bk, bq)
    if (added.there()) p = p + cast<float>(*added) * kLog2E;
    p = exp2(p + shift);
    if (!keys.all_seen(length, q0, q.rows, k0, k.rows)) {
      p = where_at(
          p, [=](auto r, auto c) { return keys.sees(length, q0 + c, k0 + r); }, 0.f);
    }
    if (segments != 0) p = where(*kv_seg == *q_seg, p, 0.f);  // (bk, 1) == (1, bq)
    *dv_sum += dot(cast<T>(p), *dout);                        // (bk, bd) f32
    const auto dp = load(dot(*v, transpose(*dout)));          // (bk, bq) f32
    p = load(p * (dp - *delta));                              // now ds
    if (softcap > 0) p = load(p * (1.f - s * s));
    *dk_sum += dot(cast<T>(p), *q);  // (bk, bd) f32
    if (env.last(3) && env.last(4)) {
      *dk = cast<T>(*dk_sum * scale);  // (bk, bd) T
      *dv = cast<T>(*dv_sum);          // (bk, bd) T
    }
  }

  template <class Host>
  void prepare(Host& host, Tiles t) {
    scale = 1.f / std::sqrt(static_cast<float>(head_dim));
    kv_lengths = key_lengths(host, batch, kv_len, ragged != 0);
    std::vector<int> begins;
    std::vector<int> ends;
    if (segments != 0) {
      const auto q_ids = host.template input<int>("q_seg", shape(batch, 1, q_len),
                                                  segment_ids(host, batch, q_len));
      const auto kv_ids = host.template input<int>("kv_seg", shape(batch, kv_len, 1),
                                                   segment_ids(host, batch, kv_len));
      SegmentBounds bounds(kv_ids, t[0], q_ids, batch);
      begins = std::move(bounds.begin);
      ends = std::move(bounds.end);
    }
    q_begin = host.keep("q_begin", std::move(begins));
    q_end = host.keep("q_end", std::move(ends));
  }
};

}  // namespace tessera::kernels
