// Attention forward with an online softmax: no score matrix leaves VMEM.
//
//   o[b,h,i] = sum_j p[i,j] v[j] / sum_j p[i,j],   p[i,j] = exp(s[i,j] - max_j s[i,j])
//   s[i,j] = cap(scale q[i] . k[j]), -inf where masked;   cap(x) = softcap tanh(x / softcap) if
//   softcap > 0
//   lse[b,h,i] = log sum_j exp(s[i,j]), on request: what the gradients make p again from
//   bias: s[i,j] = cap(scale q[i] . k[j]) + bias[b,h,i,j], which entries or heads may share
//   dropout: p[i,j] / (1 - rate), or 0, in the upper sum: by Philox of the place, as AttentionSizes
//   has it
//   sinks: a logit of each head, without a value, among those of every sum and maximum
//
// The body takes exp(x) as exp2(x log2(e)), and the factors log2(e) and scale (or softcap) into one
// that multiplies scores and maxima where they are subtracted.
//
// Dao et al., arXiv:2205.14135; Milakov & Gimelshein, arXiv:1805.02867; sinks: Xiao et al.,
// arXiv:2309.17453, whose gradient is sum_i -exp(sink - lse[i]) (dout[i] . o[i]). Query head h
// reads key head h / (heads / kv_heads). Masks, all optional: key j is seen by query i if j <
// kv_lengths[b]; causal: j <= i; window: j > i - window, and j < i + window unless causal;
// segments: equal segment ids. The kv dimension of the grid runs only over blocks with a key that
// some query of the block sees; they alone are fetched and computed. A block of queries that sees
// no key takes one step, to write zeros.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/attention_sizes.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/fma.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/log.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/tanh.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

/// Whole before the kernel names them, as nvcc wants it.
struct FlashAttentionSizes : AttentionSizes {
  int with_lse = 0;
  int sinks = 0;
};

template <class T>
struct FlashAttention : FlashAttentionSizes {
  static constexpr KernelInfo info{
      .name = "flash_attention",
      .summary = "attention forward with an online softmax",
      .math = "o[i] = sum_j softmax_j(mask(cap(scale q[i] . k[j]))) v[j], per batch entry and head",
      .cites = "arXiv:2205.14135, arXiv:1805.02867"};

  using Self = FlashAttentionSizes;
  static constexpr auto sizes = params(
      size<Self>("batch", &Self::batch, "sequences"),
      size<Self>("heads", &Self::heads, "query heads"),
      size<Self>("kv_heads", &Self::kv_heads, "key and value heads; divides heads"),
      size<Self>("q_len", &Self::q_len, "queries"), size<Self>("kv_len", &Self::kv_len, "keys"),
      size<Self>("head_dim", &Self::head_dim, "columns of q, k, v and o"),
      size<Self>("causal", &Self::causal, "1: no key after the query"),
      size<Self>("window", &Self::window, "keys seen on each side, itself included; 0: all"),
      size<Self>("softcap", &Self::softcap, "bound of the scores; 0: none"),
      size<Self>("segments", &Self::segments, "1: equal segment ids only (inputs q_seg, kv_seg)"),
      size<Self>("ragged", &Self::ragged, "1: uneven kv_lengths (or --input kv_lengths=)"),
      size<Self>("lse", &Self::with_lse, "1: the log-sum-exp of each row of scores too"),
      size<Self>("sinks", &Self::sinks, "1: a logit of each head that no value has"),
      size<Self>("bias", &Self::bias, "1: added to the scores, input bias"),
      size<Self>("dropout", &Self::dropout, "1: without the weights that input seed drops"),
      size<Self>("drop_rate", &Self::drop_rate, "part of the weights that is dropped"),
      size<Self>("bias_shared", &Self::bias_shared,
                 "one bias for all batch entries: 1; for all heads: 2; for both: 3"));
  static constexpr auto tiles =
      tile_names(tile("bq"), tile("bk"), tile("bd", "head_dim"), tile("sink", "sinks"),
                 tile("biased", "bias"), tile("dropped", "dropout"));
  static constexpr std::array cases{
      Case{"aligned, causal",
           {1, 4, 4, 512, 512, 64, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
           {128, 128, 64, 0, 0, 0}},
      Case{"full",
           {1, 2, 2, 256, 384, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
           {128, 128, 128, 0, 0, 0}},
      Case{"ragged blocks",
           {1, 2, 2, 200, 300, 72, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
           {128, 128, 72, 0, 0, 0}},
      Case{"grouped queries, causal window",
           {1, 4, 2, 400, 400, 64, 1, 100, 0, 0, 0, 1, 0, 0, 0, 0, 0},
           {64, 128, 64, 0, 0, 0}},
      Case{"two-sided window, softcap",
           {1, 2, 1, 256, 256, 64, 0, 64, 20, 0, 0, 0, 0, 0, 0, 0, 0},
           {64, 128, 64, 0, 0, 0}},
      Case{"segments",
           {2, 2, 2, 256, 256, 64, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0},
           {64, 128, 64, 0, 0, 0}},
      Case{"ragged lengths",
           {3, 2, 2, 128, 300, 64, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0},
           {64, 128, 64, 0, 0, 0}},
      Case{"sinks",
           {2, 4, 2, 130, 200, 64, 1, 70, 0, 0, 0, 1, 1, 0, 0, 0, 0},
           {64, 128, 64, 1, 0, 0}},
      Case{"sinks, no key",
           {2, 2, 1, 64, 100, 64, 0, 0, 15, 0, 1, 1, 1, 0, 0, 0, 0},
           {64, 128, 64, 1, 0, 0}},
      Case{"bias, causal",
           {1, 2, 1, 128, 256, 64, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0},
           {64, 128, 64, 0, 1, 0}},
      Case{"ragged, bias, softcap",
           {2, 2, 2, 90, 200, 64, 0, 40, 15, 0, 1, 1, 0, 1, 0, 0, 0},
           {64, 128, 64, 0, 1, 0}},
      Case{"bias of all entries",
           {2, 2, 1, 90, 200, 64, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1},
           {64, 128, 64, 0, 1, 0}},
      Case{"bias of all entries and heads",
           {2, 2, 2, 60, 100, 64, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 3},
           {64, 128, 64, 0, 1, 0}},
      Case{"ragged, dropout, causal",
           {2, 2, 1, 100, 200, 64, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0.1, 0},
           {64, 128, 64, 0, 0, 1}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 0, 0, 0}}};

  const char* valid(Tiles t) const {
    if (t[3] != sinks) return "a build has sinks, or has none: sink = sinks, 0 or 1";
    return fault(t[2], t[4], t[5]);
  }

  TESSERA_FN auto spec(auto bq, auto bk, auto bd, auto sink, auto biased, auto dropped) const {
    const auto self = *this;
    const int group = heads / kv_heads;
    const int of_entry = bias_of_entries() ? 1 : 0;
    const int of_head = bias_of_heads() ? 1 : 0;
    auto q_block = [](auto b, auto h, auto qi, auto) { return at(b, h, qi, 0); };
    auto kv_block = [group](auto b, auto h, auto, auto kv) { return at(b, h / group, kv, 0); };
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(heads).as("h"),
             parallel(ceil_div(q_len, bq)).as("q"),
             arbitrary([self, bq, bk](auto b, auto,
                                      auto qi) { return self.blocks_of_keys(b, qi, bq, bk).lo; },
                       [self, bq, bk](auto b, auto, auto qi) {
                         return self.blocks_of_keys(b, qi, bq, bk).hi;
                       })
                 .as("kv")),
        scalars("kv_lengths", kv_lengths), scalars("kv_begin", met_begin),
        scalars("kv_end", met_end),
        in<T>("q", shape(batch, heads, q_len, head_dim), block(squeezed, squeezed, bq, bd), q_block)
            .pad(0),
        in<T>("k", shape(batch, kv_heads, kv_len, head_dim), block(squeezed, squeezed, bk, bd),
              kv_block)
            .pad(0),
        in<T>("v", shape(batch, kv_heads, kv_len, head_dim), block(squeezed, squeezed, bk, bd),
              kv_block)
            .pad(0),
        in<int>("q_seg", shape(batch, q_len, 1), block(squeezed, bq, Int<1>{}),
                [](auto b, auto, auto qi, auto) { return at(b, qi, 0); })
            .when(segments != 0),
        in<int>("kv_seg", shape(batch, 1, kv_len), block(squeezed, Int<1>{}, bk),
                [](auto b, auto, auto, auto kv) { return at(b, 0, kv); })
            .pad(0)
            .when(segments != 0),
        in<float>("sink", shape(heads, 1, 1), block(squeezed, Int<1>{}, Int<1>{}),
                  [](auto, auto h, auto, auto) { return at(h, 0, 0); })
            .when(sink),
        in<T>("bias", shape(bias_batch(), bias_heads(), q_len, kv_len),
              block(squeezed, squeezed, bq, bk),
              [of_entry, of_head](auto b, auto h, auto qi, auto kv) {
                return at(b * of_entry, h * of_head, qi, kv);
              })
            .pad(0)
            .when(biased),
        seed_operand([](auto, auto, auto, auto) { return at(0, 0); }, dropped),
        out<T>("o", shape(batch, heads, q_len, head_dim), block(squeezed, squeezed, bq, bd),
               q_block),
        out<float>("lse", shape(batch, heads, q_len, 1), block(squeezed, squeezed, bq, Int<1>{}),
                   q_block)
            .when(with_lse != 0),
        accum<float>("acc", bq, bd), accum<float>("m", bq, Int<1>{}),
        accum<float>("l", bq, Int<1>{}));
  }

  /// q and o once. k and v: the visited blocks of each block of queries, less a first block that is
  /// still there from the block of queries (or head of the group) before. Segment ids likewise, for
  /// all heads; the sink of a head when it is another's turn; the bias of every block that is
  /// visited, less one that the visit before left there; a seed once, or for each cell.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const int bq = t[0];
    const int bk = t[1];
    const int q_blocks = ceil_div(q_len, bq);
    std::int64_t kv_rows = 0;
    std::int64_t seg_keys = 0;
    BiasWalk scores{*this, bq, bk, q_len, kv_len};
    for (int b = 0; b < batch; ++b) {
      for (int h = 0; h < heads; ++h) {
        for (int qi = 0; qi < q_blocks; ++qi) {
          const auto [lo, hi] = blocks_of_keys(b, qi, bq, bk);
          const int keys = lesser(hi * bk, kv_len) - lo * bk;
          const int first_keys = lesser((lo + 1) * bk, kv_len) - lo * bk;
          if (!target.keeps_blocks) scores.there = -1;
          for (int kv = lo; kv < hi; ++kv) scores.visit(b, h, qi, kv);
          const bool start = h == 0 && qi == 0;
          const int before = blocks_of_keys(b, (qi > 0 ? qi : q_blocks) - 1, bq, bk).hi;
          const bool block_there = target.keeps_blocks && !start && before - 1 == lo;
          const bool same_head = qi > 0 || h % (heads / kv_heads) != 0;
          kv_rows += keys - (block_there && same_head ? first_keys : 0);
          seg_keys += keys - (block_there ? first_keys : 0);
        }
      }
    }
    const std::int64_t queries = std::int64_t{batch} * heads * q_len;
    std::int64_t read = (queries + 2 * kv_rows) * head_dim * kBytes<T>;
    if (segments != 0) {
      const bool q_seg_stays = q_blocks == 1 && target.keeps_blocks;
      read += (std::int64_t{batch} * q_len * (q_seg_stays ? 1 : heads) + seg_keys) * kBytes<int>;
    }
    if (bias != 0) read += scores.elems * kBytes<T>;
    if (dropout != 0)
      read += 2 * kBytes<int> * (target.keeps_blocks ? 1 : std::int64_t{batch} * heads * q_blocks);
    if (sinks != 0) {
      const std::int64_t turns = heads > 1 ? std::int64_t{batch} * heads : 1;
      read +=
          kBytes<float> * (target.keeps_blocks ? turns : std::int64_t{batch} * heads * q_blocks);
    }
    read += (std::int64_t{kv_lengths.size} + met_begin.size + met_end.size) * kBytes<int>;
    return {read, queries * (head_dim * kBytes<T> + (with_lse != 0 ? kBytes<float> : 0))};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class QSeg, class KvSeg, class Sink, class Bias,
            class Seed, class O, class Lse, class Acc, class M, class L>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, QSeg q_seg, KvSeg kv_seg, Sink sink,
                             Bias added, Seed seed, O o, Lse lse, Acc acc, M m, L l) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    const auto q0 = env.program_id(2) * q.rows;
    const auto k0 = env.program_id(3) * k.rows;
    const auto length = kv_lengths[env.program_id(0)];
    if (env.first(3)) {
      *acc = 0.f;      // (bq, bd) f32
      *m = kMinusInf;  // (bq, 1)
      *l = 0.f;        // (bq, 1)
      if (sink.there()) {
        *m = max(*m, *sink * (1.f / (softcap > 0 ? softcap : scale)));
        *l = 1.f;
      }
    }
    constexpr float kLog2E = 1.44269504f;
    auto s = load(dot(*q, transpose(*k)));  // (bq, bk) f32
    if (softcap > 0) s = tanh(s * (scale / softcap));
    if (added.there()) s = s + cast<float>(*added) * (1.f / (softcap > 0 ? softcap : scale));
    const float factor = (softcap > 0 ? softcap : scale) * kLog2E;
    const auto keys = seen();
    if (!keys.all_seen(length, q0, q.rows, k0, k.rows)) {
      s = where_at(
          s, [=](auto r, auto c) { return keys.sees(length, q0 + r, k0 + c); }, kMinusInf);
    }
    if (segments != 0) s = where(*q_seg == *kv_seg, s, kMinusInf);  // (bq, 1) == (1, bk)
    auto m_new = load(max(*m, row_max(s)));                         // (bq, 1)
    auto shift = where(m_new == kMinusInf, 0.f, m_new * -factor);   // a row with no key yet
    auto p = exp2(fma(s, factor, shift));                           // (bq, bk), in [0, 1]
    auto rescale = exp2(fma(*m, factor, shift));                    // (bq, 1)
    *l = *l * rescale + row_sum(p);
    *acc = *acc * rescale;
    if (seed.there()) {
      const auto stay = kept(seed, row_ids(s) + q0, col_ids(s) + k0,
                             env.program_id(0) * heads + env.program_id(1));
      *acc += dot(cast<T>(where(stay, p, 0.f)), *v);
    } else {
      *acc += dot(cast<T>(p), *v);  // (bq, bd) f32
    }
    *m = m_new;
    if (env.last(3)) {
      if (seed.there()) *acc = *acc * kept_scale;
      *o = cast<T>(*acc / where(*l == 0.f, 1.f, *l));                            // (bq, bd) T
      if (with_lse != 0) *lse = *m * (softcap > 0 ? softcap : scale) + log(*l);  // (bq, 1) f32
    }
  }

  template <class Host>
  void prepare(Host& host, Tiles t) {
    prepare_blocks(host, t[0], false);
  }
};

}  // namespace tessera::kernels
