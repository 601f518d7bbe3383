// Attention of one new query per sequence over keys and values in pages: the decoding step.
//
//   o[b,h] = sum_j p[j] v[j] / (sum_j p[j] + exp(sink[h] - m)),   p[j] = exp(s[j] - m)
//   s[j] = q[b,h] . k[j] / sqrt(head_dim),   first[b] <= j < lengths[b],   m = max(sink[h], max_j
//   s[j]), without sinks max_j s[j]
//   paged_attention_int8, paged_attention_fp8: k[j] and v[j] are stored in 8 bits, times a scale
//   each per token and head, which multiply s[j] and p[j]
//
// Kwon et al., arXiv:2309.06180. Key j of sequence b is row j % page of page table[b, j / page];
// `window` keeps the last keys alone: first = lengths - window. Sinks: Xiao et al.,
// arXiv:2309.17453, as logits of heads. The `group` query heads of a key head are the rows of one
// block (Ainslie et al., arXiv:2305.13245), so that each page is brought once for all of them. Only
// pages with a key that is seen are brought, in the order of the sequence, by an online softmax:
// Milakov & Gimelshein, arXiv:1805.02867. An empty sequence takes one step, to write zeros.
//
// splits > 1 (Flash-Decoding, Dao et al., 2023): cells of their own take equal runs of a sequence's
// pages, and give each an attention `part` of its own and its log-sum-exp, which attention_merge
// puts together in their order; a sink is the first one's.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/pages.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/fma.hpp"
#include "sim/ops/log.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

/// `Cache`: what elements of the cache are; scaled unless they are those of q.
template <class T, class Cache>
struct PagedDecode {
  static constexpr bool kScaled = !std::is_same_v<T, Cache>;
  static constexpr bool kInt8 = std::is_same_v<Cache, std::int8_t>;
  static constexpr KernelInfo info{
      .name = kInt8     ? "paged_attention_int8"
              : kScaled ? "paged_attention_fp8"
                        : "paged_attention",
      .summary = kInt8     ? "attention of one query per sequence over a paged cache of int8"
                 : kScaled ? "attention of one query per sequence over a paged cache of fp8"
                           : "attention of one query per sequence over a paged cache",
      .math =
          "o[b,h] = sum_j softmax_j(q[b,h] . k[j] / sqrt(head_dim)) v[j],  k[j] in page "
          "table[b, j / page]",
      .cites = "arXiv:2309.06180, arXiv:2305.13245"};

  int batch = 1;
  int kv_heads = 1;
  int group = 1;
  int head_dim = 0;
  int page = 0;
  int pages = 0;
  int window = 0;
  int sinks = 0;
  int splits = 1;

  float root = 0;     ///< sqrt(head_dim)
  float scale = 0;    ///< of q . k, and of base 2: log2(e) / root
  Smem<int> lengths;  ///< keys of each sequence
  Smem<int> table;    ///< pages of each sequence, in its order

  static constexpr auto sizes = params(
      size("batch", &PagedDecode::batch, "sequences"),
      size("kv_heads", &PagedDecode::kv_heads, "key and value heads"),
      size("group", &PagedDecode::group, "query heads of each"),
      size("head_dim", &PagedDecode::head_dim, "columns of q, k, v and o"),
      size("page", &PagedDecode::page, "keys of a page"),
      size("pages", &PagedDecode::pages, "pages of a sequence (--input table=, lengths=)"),
      size("window", &PagedDecode::window, "last keys that are seen; 0: all"),
      size("sinks", &PagedDecode::sinks, "1: a logit of each head that no value has"),
      size("splits", &PagedDecode::splits, "runs of pages of a sequence, a cell and a part each"));
  static constexpr auto tiles =
      tile_names(tile("bg", "group"), tile("bp", "page"), tile("bd", "head_dim"));
  static constexpr std::array scaled_cases{
      Case{"aligned", {3, 2, 4, 64, 32, 4, 0, 0, 1}, {4, 32, 64}},
      Case{"ragged", {4, 1, 6, 80, 16, 5, 0, 1, 2}, {6, 16, 80}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 0, 0, 1}, {1, 1, 1}}};
  static constexpr std::array plain_cases{
      Case{"aligned", {4, 2, 8, 128, 64, 8, 0, 0, 1}, {8, 64, 128}},
      Case{"window", {3, 2, 4, 64, 32, 8, 100, 0, 1}, {4, 32, 64}},
      Case{"sinks", {3, 2, 4, 64, 32, 3, 0, 1, 1}, {4, 32, 64}},
      Case{"splits, sinks", {4, 2, 4, 64, 32, 5, 100, 1, 3}, {4, 32, 64}},
      Case{"ragged, one key head", {5, 1, 6, 80, 16, 5, 0, 0, 1}, {6, 16, 80}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 0, 0, 1}, {1, 1, 1}}};
  static constexpr auto cases = cases_of<kScaled>(scaled_cases, plain_cases);

  const char* valid(Tiles t) const {
    if (splits < 1) return "splits is 1 or more";
    return t[0] == group && t[1] == page && t[2] == head_dim
               ? nullptr
               : "blocks are whole: bg = group, bp = page, bd = head_dim";
  }

  TESSERA_FN auto first_key(auto b) const {
    return greater(lengths[b] - (window > 0 ? window : pages * page), 0);
  }
  TESSERA_FN auto first_page(auto b) const { return first_key(b) / page; }
  TESSERA_FN auto end_page(auto b) const {
    return greater((lengths[b] + (page - 1)) / page, first_page(b) + 1);
  }

  /// Pages of each split but the last ones, which may have fewer, or none.
  TESSERA_FN auto pages_each(auto b) const {
    return (end_page(b) - first_page(b) + (splits - 1)) / splits;
  }
  /// The pages [lo, hi) of a split; at least one, where it has none without a key of its own.
  TESSERA_FN auto split_begin(auto b, auto split) const {
    return lesser(first_page(b) + split * pages_each(b), end_page(b) - 1);
  }
  TESSERA_FN auto split_end(auto b, auto split) const {
    return lesser(first_page(b) + (split + 1) * pages_each(b), end_page(b));
  }

  template <class Extent>
  TESSERA_FN static auto if_scaled(Extent extent) {
    if constexpr (kScaled)
      return extent;
    else
      return Int<1>{};
  }

  TESSERA_FN auto spec(auto bg, auto bp, auto bd) const {
    const auto self = *this;
    const auto pages_of = table;
    const int each = pages;
    auto query = [](auto b, auto h, auto, auto) { return at(b, h, 0, 0); };
    auto of_part = [](auto b, auto h, auto split, auto) { return at(b, split, h, 0, 0); };
    auto paged = [pages_of, each](auto b, auto h, auto, auto p) {
      return at(pages_of[b * each + p], h, 0, 0);
    };
    const auto cache = shape(batch * pages, kv_heads, page, head_dim);
    const auto scales = shape(batch * pages, kv_heads, 1, page);
    const auto part_block = block(squeezed, squeezed, squeezed, bg, bd);
    const double most = kInt8 ? 127 : 1;
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(kv_heads).as("h"), parallel(splits).as("split"),
             arbitrary([self](auto b, auto, auto split) { return self.split_begin(b, split); },
                       [self](auto b, auto, auto split) { return self.split_end(b, split); })
                 .as("page")),
        scalars("lengths", lengths), scalars("table", table),
        in<T>("q", shape(batch, kv_heads, group, head_dim), block(squeezed, squeezed, bg, bd),
              query),
        in<Cache>("k", cache, block(squeezed, squeezed, bp, bd), paged),
        in<Cache>("v", cache, block(squeezed, squeezed, bp, bd), paged),
        in<float>("k_scale", scales, block(squeezed, squeezed, Int<1>{}, bp), paged)
            .uniform(0.5 / most, 1.5 / most)
            .when(kScaled),
        in<float>("v_scale", scales, block(squeezed, squeezed, Int<1>{}, bp), paged)
            .uniform(0.5 / most, 1.5 / most)
            .when(kScaled),
        in<float>("sink", shape(kv_heads, group, 1), block(squeezed, bg, Int<1>{}),
                  [](auto, auto h, auto, auto) { return at(h, 0, 0); })
            .when(sinks != 0),
        out<T>("o", shape(batch, kv_heads, group, head_dim), block(squeezed, squeezed, bg, bd),
               query)
            .when(splits == 1),
        out<float>("part", shape(batch, splits, kv_heads, group, head_dim), part_block, of_part)
            .when(splits > 1),
        out<float>("lse", shape(batch, splits, kv_heads, group, 1),
                   block(squeezed, squeezed, squeezed, bg, Int<1>{}), of_part)
            .when(splits > 1),
        vmem<T>("keys", if_scaled(bp), if_scaled(bd)),
        vmem<T>("values", if_scaled(bp), if_scaled(bd)), accum<float>("acc", bg, bd),
        accum<float>("m", bg, Int<1>{}), accum<float>("l", bg, Int<1>{}));
  }

  /// q and results once, for each split; lengths and table once; of k and v, and their scales, a
  /// page whenever another one is wanted; sinks of a head when it is another's turn.
  Bytes hbm_bytes(Tiles, Target target) const {
    std::int64_t brought = 0;
    int there = -1;
    for (int b = 0; b < batch; ++b) {
      for (int cell = 0; cell < kv_heads * splits; ++cell) {
        if (!target.keeps_blocks) there = -1;
        for (int p = split_begin(b, cell % splits); p < split_end(b, cell % splits); ++p) {
          const int wanted = table[b * pages + p] * kv_heads + cell / splits;
          brought += wanted != there ? 1 : 0;
          there = wanted;
        }
      }
    }
    const std::int64_t heads = std::int64_t{batch} * kv_heads;
    const std::int64_t queries = heads * group * head_dim;
    const std::int64_t turns = target.keeps_blocks ? (kv_heads > 1 ? heads : 1) : heads * splits;
    const std::int64_t reads = target.keeps_blocks ? queries : queries * splits;
    return {reads * kBytes<T> +
                2 * brought * page * (head_dim * kBytes<Cache> + (kScaled ? kBytes<float> : 0)) +
                (sinks != 0 ? turns * group * kBytes<float> : 0) +
                (std::int64_t{lengths.size} + table.size) * kBytes<int>,
            splits == 1 ? queries * kBytes<T>
                        : heads * splits * group * (head_dim + 1) * kBytes<float>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class KScale, class VScale, class Sink, class O,
            class Part, class Lse, class Keys, class Values, class Acc, class M, class L>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, KScale k_scale, VScale v_scale, Sink sink,
                             O o, Part part, Lse lse, Keys keys, Values values, Acc acc, M m,
                             L l) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    const auto b = env.program_id(0);
    const auto split = env.program_id(2);
    const auto key0 = env.program_id(3) * k.rows;
    const auto end = lengths[b];
    const auto begin = greater(first_key(b), (first_page(b) + split * pages_each(b)) * page);
    if (env.first(3)) {
      *acc = 0.f;      // (bg, bd) f32
      *m = kMinusInf;  // (bg, 1)
      *l = 0.f;        // (bg, 1)
      if (sinks != 0) {
        if (split == 0) {
          *m = *sink * root;
          *l = 1.f;
        }
      }
    }
    auto s = [&] {  // (bg, bp) f32
      if constexpr (kScaled) {
        *keys = cast<T>(cast<float>(*k));  // (bp, bd) T
        return load(load(dot(*q, transpose(*keys))) * *k_scale);
      } else {
        return load(dot(*q, transpose(*k)));
      }
    }();
    s = where_at(
        s,
        [=](auto, auto c) {
          const auto j = key0 + c;
          return j >= begin && j < end;
        },
        kMinusInf);
    auto m_new = load(max(*m, row_max(s)));                       // (bg, 1)
    auto shift = where(m_new == kMinusInf, 0.f, m_new * -scale);  // no key yet
    auto p = load(exp2(fma(s, scale, shift)));                    // (bg, bp), in [0, 1]
    auto rescale = exp2(fma(*m, scale, shift));                   // (bg, 1)
    *l = *l * rescale + row_sum(p);
    *acc = *acc * rescale;
    if constexpr (kScaled) {
      *values = cast<T>(cast<float>(*v));
      *acc += dot(cast<T>(p * *v_scale), *values);  // (bg, bd) f32
    } else {
      *acc += dot(cast<T>(p), *v);  // (bg, bd) f32
    }
    *m = m_new;
    if (env.last(3)) {
      const auto mean = load(*acc / where(*l == 0.f, 1.f, *l));  // (bg, bd) f32
      if (splits == 1) {
        *o = cast<T>(mean);
      } else {
        *part = mean;
        *lse = *m / root + log(*l);  // (bg, 1): -inf if nothing was seen
      }
    }
  }

  /// Sequences of uneven lengths, an empty one among several, in pages that lie anywhere.
  template <class Host>
  void prepare(Host& host, Tiles) {
    constexpr float kLog2E = 1.44269504f;
    root = std::sqrt(static_cast<float>(head_dim));
    scale = kLog2E / root;
    lengths = sequence_lengths(host, batch, pages * page);
    table = page_table(host, batch, pages);
    for (int b = 0; b < batch; ++b)
      check_pages(host, table, b * pages + first_page(b), b * pages + end_page(b));
  }
};

template <class T>
using PagedAttention = PagedDecode<T, T>;

}  // namespace tessera::kernels
