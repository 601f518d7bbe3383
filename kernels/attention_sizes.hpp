// Sizes of attention, which its forward pass and its gradients share, what they say of its masks
// and its bias, and how its weights are dropped.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/attention_blocks.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/smem.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/greater_equal.hpp"
#include "sim/ops/philox.hpp"

namespace tessera::kernels {

struct AttentionSizes {
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
  int dropout = 0;
  float drop_rate = 0;
  int bias_shared = 0;

  float scale = 0;                  ///< of q . k, 1 / sqrt(head_dim)
  float kept_scale = 1;             ///< of weights that are kept, 1 / (1 - drop_rate)
  std::uint32_t dropped_below = 0;  ///< words of weights that are dropped: drop_rate 2^32
  Smem<int> kv_lengths;             ///< keys of each batch entry
  Smem<int> met_begin;              ///< first place of the other side that a block may see, or be
                                    ///< seen by, by its segments
  Smem<int> met_end;                ///< one past the last

  /// Why these sizes cannot run with tiles of these columns, or nullptr.
  const char* fault(int bd, int biased, int dropped) const {
    if (bd < head_dim) return "bd must hold a whole row: bd >= head_dim";
    if (heads % kv_heads != 0) return "kv_heads must divide heads";
    if (biased != bias) return "a build has a bias, or has none: biased = bias, 0 or 1";
    if (bias_shared < 0 || bias_shared > 3) return "bias_shared is 0 to 3";
    if (dropped != dropout) return "a build drops weights, or does not: dropped = dropout, 0 or 1";
    return drop_rate >= 0 && drop_rate < 1 ? nullptr : "drop_rate lies in [0, 1)";
  }

  TESSERA_FN SeenKeys seen() const { return {q_len, kv_len, causal != 0, window}; }
  /// The blocks of keys of a block of queries.
  TESSERA_FN auto blocks_of_keys(auto b, auto qi, int bq, int bk) const {
    auto first = seen().first_key(qi * bq);
    auto end = seen().end_key(kv_lengths[b], qi * bq, bq);
    if (segments != 0) {
      const auto at = b * ceil_div(q_len, bq) + qi;
      first = greater(first, met_begin[at]);
      end = lesser(end, met_end[at]);
    }
    return met_blocks(first, end, kv_len, bk);
  }
  /// The blocks of queries of a block of keys.
  TESSERA_FN auto blocks_of_queries(auto b, auto kv, int bk, int bq) const {
    auto first = seen().first_query(kv * bk);
    auto end = seen().end_query(kv_lengths[b], kv * bk, bk);
    if (segments != 0) {
      const auto at = b * ceil_div(kv_len, bk) + kv;
      first = greater(first, met_begin[at]);
      end = lesser(end, met_end[at]);
    }
    return met_blocks(first, end, q_len, bq);
  }

  /// A bias has planes of its own for batch entries, and for heads, or one that they share.
  TESSERA_FN bool bias_of_entries() const { return (bias_shared & 1) == 0; }
  TESSERA_FN bool bias_of_heads() const { return (bias_shared & 2) == 0; }
  TESSERA_FN int bias_batch() const { return bias_of_entries() ? batch : 1; }
  TESSERA_FN int bias_heads() const { return bias_of_heads() ? heads : 1; }
  /// Its gradient is no sum: the kernels that make ds give it.
  TESSERA_FN bool gives_bias_gradient() const { return bias != 0 && bias_shared == 0; }

  /// The seed of dropped weights, a key of Philox: (2, 1) words.
  template <class Map>
  TESSERA_FN auto seed_operand(Map map, auto dropped) const {
    return in<int>("seed", shape(2, 1), block(Int<2>{}, Int<1>{}), map).when(dropped);
  }
  /// Where the weight of query `query` and key `key`, i32 tiles, is kept: where Philox-4x32-10 of
  /// the counter (key, query, batch entry heads + head, 0) has a first word of dropped_below or
  /// more. Of places alone, so that gradients, and blocks of any size, drop the same ones.
  template <class Seed, class Query, class Key>
  TESSERA_FN auto kept(Seed seed, const Query& query, const Key& key, auto head) const {
    const auto first = load(cast<std::uint32_t>(*seed.row(0)));
    const auto second = load(cast<std::uint32_t>(*seed.row(1)));
    const auto c0 = load(cast<std::uint32_t>(key));
    const auto c1 = load(cast<std::uint32_t>(query));
    const auto c2 = load(cast<std::uint32_t>(zeros_like(query) + head));
    const auto c3 = load(zeros_like(c0));
    return load(philox(first, second, c0, c1, c2, c3).word[0] >= dropped_below);
  }

  /// `by_keys`: blocks of `rows` keys meet queries, else blocks of `rows` queries meet keys.
  template <class Host>
  void prepare_blocks(Host& host, int rows, bool by_keys) {
    prepare_blocks(host, rows, by_keys, by_keys);
  }
  /// `keys_are_rows`: so that segment ids of keys are a column, those of queries a row.
  template <class Host>
  void prepare_blocks(Host& host, int rows, bool by_keys, bool keys_are_rows) {
    scale = 1.f / std::sqrt(static_cast<float>(head_dim));
    kept_scale = 1.f / (1.f - drop_rate);
    dropped_below = static_cast<std::uint32_t>(std::llround(std::ldexp(double{drop_rate}, 32)));
    kv_lengths = key_lengths(host, batch, kv_len, ragged != 0);
    if (dropout != 0) {
      constexpr int kMost = 1 << 30;
      host.template input<int>("seed", shape(2, 1), {host.random(0, kMost), host.random(0, kMost)});
    }
    std::vector<int> begins;
    std::vector<int> ends;
    if (segments != 0) {
      const auto q_ids = host.template input<int>(
          "q_seg", keys_are_rows ? shape(batch, 1, q_len) : shape(batch, q_len, 1),
          segment_ids(host, batch, q_len));
      const auto kv_ids = host.template input<int>(
          "kv_seg", keys_are_rows ? shape(batch, kv_len, 1) : shape(batch, 1, kv_len),
          segment_ids(host, batch, kv_len));
      SegmentBounds bounds(by_keys ? kv_ids : q_ids, rows, by_keys ? q_ids : kv_ids, batch);
      begins = std::move(bounds.begin);
      ends = std::move(bounds.end);
    }
    met_begin = host.keep(by_keys ? "q_begin" : "kv_begin", std::move(begins));
    met_end = host.keep(by_keys ? "q_end" : "kv_end", std::move(ends));
  }
};

/// Those of its gradients, in their order.
struct AttentionGradSizes : AttentionSizes {
  using Self = AttentionSizes;  // whole here, as nvcc wants it
  static constexpr auto sizes =
      params(size("batch", &Self::batch, "sequences"), size("heads", &Self::heads, "query heads"),
             size("kv_heads", &Self::kv_heads, "key and value heads; divides heads"),
             size("q_len", &Self::q_len, "queries"), size("kv_len", &Self::kv_len, "keys"),
             size("head_dim", &Self::head_dim, "columns of q, k, v, dout and their gradients"),
             size("causal", &Self::causal, "1: no key after the query"),
             size("window", &Self::window, "keys seen on each side, itself included; 0: all"),
             size("softcap", &Self::softcap, "bound of the scores; 0: none"),
             size("ragged", &Self::ragged, "1: uneven kv_lengths (or --input kv_lengths=)"),
             size("segments", &Self::segments, "1: equal ids alone see each other"),
             size("bias", &Self::bias, "1: added to the scores, input bias"),
             size("dropout", &Self::dropout, "1: the weights that input seed drops"),
             size("drop_rate", &Self::drop_rate, "part of the weights that is dropped"),
             size("bias_shared", &Self::bias_shared,
                  "one bias for all batch entries: 1; for all heads: 2; for both: 3"));
};

/// Elements of the blocks of a bias that a walk over blocks brings: not again one that is there.
struct BiasWalk {
  const AttentionSizes& of;
  int rows;     ///< of a block: queries, or keys
  int columns;  ///< of a block
  int row_end;
  int column_end;
  std::int64_t elems = 0;
  std::int64_t there = -1;

  void visit(int b, int h, int row, int column) {
    const std::int64_t plane =
        std::int64_t{of.bias_of_entries() ? b : 0} * of.bias_heads() + (of.bias_of_heads() ? h : 0);
    const std::int64_t block =
        (plane * ceil_div(row_end, rows) + row) * ceil_div(column_end, columns) + column;
    if (block != there) {
      elems += std::int64_t{lesser((row + 1) * rows, row_end) - row * rows} *
               (lesser((column + 1) * columns, column_end) - column * columns);
    }
    there = block;
  }
};

}  // namespace tessera::kernels
