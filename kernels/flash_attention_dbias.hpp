// The gradient of attention (kernels/flash_attention.hpp) by a bias that batch entries, heads or
// both share.
//
//   dbias[i,j] = sum ds[b,h,i,j] over the entries and heads that share it, each with all its heads
//   in turn
//
// ds is that of kernels/flash_attention_dq.hpp (Dao, arXiv:2307.08691, algorithm 2) before scores
// are capped, made again; the sum, in f32 and in that order, stays in VMEM. Blocks of which no
// query sees a key take one step, to write zeros.
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
struct FlashAttentionDbias : AttentionGradSizes {
  static constexpr KernelInfo info{
      .name = "flash_attention_dbias",
      .summary = "gradient of attention by a bias that entries or heads share",
      .math =
          "dbias[i,j] = sum_{b,h} ds[b,h,i,j] over those that share it,  ds[i,j] = exp(s[i,j] - "
          "lse[i]) (dout[i] . v[j] - delta[i])",
      .cites = "arXiv:2307.08691"};

  static constexpr auto tiles =
      tile_names(tile("bq"), tile("bk"), tile("bd", "head_dim"), tile("dropped", "dropout"));
  static constexpr std::array cases{
      Case{"aligned, of all entries and heads, causal",
           {2, 2, 2, 128, 256, 64, 1, 0, 0, 0, 0, 1, 0, 0, 3},
           {64, 128, 64, 0}},
      Case{"ragged, of all entries, grouped queries",
           {3, 4, 2, 100, 150, 64, 0, 0, 15, 1, 0, 1, 0, 0, 1},
           {64, 128, 64, 0}},
      Case{"of all heads, dropout",
           {2, 3, 1, 60, 130, 64, 0, 40, 0, 0, 0, 1, 1, 0.1, 2},
           {64, 128, 64, 1}},
      Case{"of all heads, segments",
           {2, 2, 1, 60, 130, 64, 1, 0, 0, 0, 1, 1, 0, 0, 2},
           {64, 128, 64, 0}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 3}, {1, 1, 1, 0}}};

  const char* valid(Tiles t) const {
    if (bias == 0) return "the gradient of a bias is that of one that is there: bias = 1";
    return fault(t[2], 1, t[3]);
  }

  /// Steps along a dim of `all` that share a bias: one alone if no query of the block sees a key.
  TESSERA_FN auto steps(int all, auto qi, auto kv, int bq, int bk) const {
    const auto all_keys = kv * 0 + kv_len;  // of the ids' type
    const auto before_end = greater(seen().end_key(all_keys, qi * bq, bq) - kv * bk, 0);
    const auto from_first = greater(kv * bk + bk - seen().first_key(qi * bq), 0);
    return lesser(before_end, 1) * lesser(from_first, 1) * (all - 1) + 1;
  }
  TESSERA_FN int entries() const { return batch / bias_batch(); }
  TESSERA_FN int shared_heads() const { return heads / bias_heads(); }

  TESSERA_FN auto spec(auto bq, auto bk, auto bd, auto dropped) const {
    const auto self = *this;
    const int group = heads / kv_heads;
    auto q_block = [](auto b, auto h, auto qi, auto, auto eb, auto eh) {
      return at(b + eb, h + eh, qi, 0);
    };
    auto kv_block = [group](auto b, auto h, auto, auto kv, auto eb, auto eh) {
      return at(b + eb, (h + eh) / group, kv, 0);
    };
    auto score_block = [](auto b, auto h, auto qi, auto kv, auto, auto) {
      return at(b, h, qi, kv);
    };
    const auto queries = shape(batch, heads, q_len, head_dim);
    const auto keys = shape(batch, kv_heads, kv_len, head_dim);
    const auto rows = shape(batch, heads, q_len, 1);
    const auto scores = shape(bias_batch(), bias_heads(), q_len, kv_len);
    const auto of_q = block(squeezed, squeezed, bq, bd);
    const auto of_kv = block(squeezed, squeezed, bk, bd);
    const auto of_rows = block(squeezed, squeezed, bq, Int<1>{});
    const auto of_scores = block(squeezed, squeezed, bq, bk);
    return tessera::spec(
        grid(parallel(bias_batch()).as("b"), parallel(bias_heads()).as("h"),
             parallel(ceil_div(q_len, bq)).as("q"), parallel(ceil_div(kv_len, bk)).as("kv"),
             arbitrary([](auto, auto, auto, auto) { return 0; },
                       [self, bq, bk](auto, auto, auto qi, auto kv) {
                         return self.steps(self.entries(), qi, kv, bq, bk);
                       })
                 .as("entry"),
             arbitrary([](auto, auto, auto, auto, auto) { return 0; },
                       [self, bq, bk](auto, auto, auto qi, auto kv, auto) {
                         return self.steps(self.shared_heads(), qi, kv, bq, bk);
                       })
                 .as("head")),
        scalars("kv_lengths", kv_lengths), in<T>("q", queries, of_q, q_block).pad(0),
        in<T>("k", keys, of_kv, kv_block).pad(0), in<T>("v", keys, of_kv, kv_block).pad(0),
        in<T>("dout", queries, of_q, q_block).pad(0),
        in<float>("lse", rows, of_rows, q_block).pad(0).uniform(4, 6),
        in<float>("delta", rows, of_rows, q_block).pad(0),
        in<int>("q_seg", shape(batch, q_len, 1), block(squeezed, bq, Int<1>{}),
                [](auto b, auto, auto qi, auto, auto eb, auto) { return at(b + eb, qi, 0); })
            .when(segments != 0),
        in<int>("kv_seg", shape(batch, 1, kv_len), block(squeezed, Int<1>{}, bk),
                [](auto b, auto, auto, auto kv, auto eb, auto) { return at(b + eb, 0, kv); })
            .pad(0)
            .when(segments != 0),
        in<T>("bias", scores, of_scores, score_block).pad(0),
        seed_operand([](auto, auto, auto, auto, auto, auto) { return at(0, 0); }, dropped),
        out<T>("dbias", scores, of_scores, score_block), accum<float>("acc", bq, bk));
  }

  /// The bias and its gradient once; of the others a block whenever a step wants another one.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const int q_blocks = ceil_div(q_len, t[0]);
    const int kv_blocks = ceil_div(kv_len, t[1]);
    const int group = heads / kv_heads;
    const int planes = bias_batch() * bias_heads();
    std::int64_t q_rows = 0;
    std::int64_t kv_rows = 0;
    std::int64_t ids = 0;
    int q_there = -1;
    int kv_there = -1;
    int q_seg_there = -1;
    int kv_seg_there = -1;
    const auto bring = [](int& there, int block, std::int64_t& sum, std::int64_t elems) {
      if (there != block) sum += elems;
      there = block;
    };
    for (int cell = 0; cell < planes * q_blocks * kv_blocks; ++cell) {
      if (!target.keeps_blocks) q_there = kv_there = q_seg_there = kv_seg_there = -1;
      const int kv = cell % kv_blocks;
      const int qi = cell / kv_blocks % q_blocks;
      const int plane = cell / kv_blocks / q_blocks;
      const std::int64_t of_q = lesser((qi + 1) * t[0], q_len) - qi * t[0];
      const std::int64_t of_kv = lesser((kv + 1) * t[1], kv_len) - kv * t[1];
      for (int entry = 0; entry < steps(entries(), qi, kv, t[0], t[1]); ++entry) {
        for (int head = 0; head < steps(shared_heads(), qi, kv, t[0], t[1]); ++head) {
          const int b = plane / bias_heads() + entry;
          const int h = plane % bias_heads() + head;
          bring(q_there, (b * heads + h) * q_blocks + qi, q_rows, of_q);
          bring(kv_there, (b * kv_heads + h / group) * kv_blocks + kv, kv_rows, of_kv);
          bring(q_seg_there, b * q_blocks + qi, ids, of_q);
          bring(kv_seg_there, b * kv_blocks + kv, ids, of_kv);
        }
      }
    }
    const std::int64_t scores = std::int64_t{planes} * q_len * kv_len * kBytes<T>;
    const std::int64_t cells = std::int64_t{planes} * q_blocks * kv_blocks;
    const std::int64_t seed = dropout != 0 ? 2 * (target.keeps_blocks ? 1 : cells) : 0;
    return {2 * (q_rows + kv_rows) * head_dim * kBytes<T> + 2 * q_rows * kBytes<float> + scores +
                (kv_lengths.size + (segments != 0 ? ids : 0) + seed) * kBytes<int>,
            scores};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class Dout, class Lse, class Delta, class QSeg,
            class KvSeg, class Bias, class Seed, class Dbias, class Acc>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, Dout dout, Lse lse, Delta delta, QSeg q_seg,
                             KvSeg kv_seg, Bias added, Seed seed, Dbias dbias, Acc acc) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    constexpr float kLog2E = 1.44269504f;
    const auto b = env.program_id(0) + env.program_id(4);
    const auto q0 = env.program_id(2) * q.rows;
    const auto k0 = env.program_id(3) * k.rows;
    const auto length = kv_lengths[b];
    const auto keys = seen();
    if (env.first(4) && env.first(5)) *acc = 0.f;  // (bq, bk) f32
    auto s = load(dot(*q, transpose(*k)));         // (bq, bk) f32
    if (softcap > 0) s = tanh(s * (scale / softcap));
    const float factor = (softcap > 0 ? softcap : scale) * kLog2E;
    const auto shift = load(where(*lse == kMinusInf, 0.f, *lse * -kLog2E));  // (bq, 1): sees none
    auto p = load(exp2(s * factor + cast<float>(*added) * kLog2E + shift));  // (bq, bk)
    if (!keys.all_seen(length, q0, q.rows, k0, k.rows)) {
      p = where_at(
          p, [=](auto r, auto c) { return keys.sees(length, q0 + r, k0 + c); }, 0.f);
    }
    if (segments != 0) p = where(*q_seg == *kv_seg, p, 0.f);  // (bq, 1) == (1, bk)
    auto dp = load(dot(*dout, transpose(*v)));                // (bq, bk) f32
    if (seed.there()) {
      const auto h = env.program_id(1) + env.program_id(5);
      dp = where(kept(seed, row_ids(s) + q0, col_ids(s) + k0, b * heads + h), dp * kept_scale, 0.f);
    }
    *acc = *acc + p * (dp - *delta);
    if (env.last(4) && env.last(5)) *dbias = cast<T>(*acc);  // (bq, bk) T
  }

  template <class Host>
  void prepare(Host& host, Tiles t) {
    prepare_blocks(host, t[0], false);
  }
};

}  // namespace tessera::kernels
