// Attention of one new query per sequence over keys and values in pages: the decoding step.
//
//   o[b,h] = sum_j p[j] v[j] / sum_j p[j],   p[j] = exp(s[j] - max_j s[j]),   s[j] = q[b,h] . k[j]
//   / sqrt(head_dim),   first[b] <= j < lengths[b]
//
// Kwon et al., arXiv:2309.06180. Key j of sequence b is row j % page of page table[b, j / page];
// `window` keeps the last keys alone: first = lengths - window. The `group` query heads of a key
// head are the rows of one block (Ainslie et al., arXiv:2305.13245), so that each page is brought
// once for all of them. Only pages with a key that is seen are brought, in the order of the
// sequence, by an online softmax: Milakov & Gimelshein, arXiv:1805.02867. An empty sequence takes
// one step, to write zeros.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/pages.hpp"
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
struct PagedAttention {
  static constexpr KernelInfo info{
      .name = "paged_attention",
      .summary = "attention of one query per sequence over a paged cache",
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

  float scale = 0;    ///< of q . k, and of base 2: log2(e) / sqrt(head_dim)
  Smem<int> lengths;  ///< keys of each sequence
  Smem<int> table;    ///< pages of each sequence, in its order

  static constexpr auto sizes = params(
      size("batch", &PagedAttention::batch, "sequences"),
      size("kv_heads", &PagedAttention::kv_heads, "key and value heads"),
      size("group", &PagedAttention::group, "query heads of each"),
      size("head_dim", &PagedAttention::head_dim, "columns of q, k, v and o"),
      size("page", &PagedAttention::page, "keys of a page"),
      size("pages", &PagedAttention::pages, "pages of a sequence (--input table=, lengths=)"),
      size("window", &PagedAttention::window, "last keys that are seen; 0: all"));
  static constexpr auto tiles =
      tile_names(tile("bg", "group"), tile("bp", "page"), tile("bd", "head_dim"));
  static constexpr std::array cases{
      Case{"aligned", {4, 2, 8, 128, 64, 8, 0}, {8, 64, 128}},
      Case{"window", {3, 2, 4, 64, 32, 8, 100}, {4, 32, 64}},
      Case{"ragged, one key head", {5, 1, 6, 80, 16, 5, 0}, {6, 16, 80}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 0}, {1, 1, 1}}};

  const char* valid(Tiles t) const {
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

  TESSERA_FN auto spec(auto bg, auto bp, auto bd) const {
    const auto self = *this;
    const auto pages_of = table;
    const int each = pages;
    auto query = [](auto b, auto h, auto) { return at(b, h, 0, 0); };
    auto paged = [pages_of, each](auto b, auto h, auto p) {
      return at(pages_of[b * each + p], h, 0, 0);
    };
    const auto cache = shape(batch * pages, kv_heads, page, head_dim);
    return tessera::spec(grid(parallel(batch).as("b"), parallel(kv_heads).as("h"),
                              arbitrary([self](auto b, auto) { return self.first_page(b); },
                                        [self](auto b, auto) { return self.end_page(b); })
                                  .as("page")),
                         scalars("lengths", lengths), scalars("table", table),
                         in<T>("q", shape(batch, kv_heads, group, head_dim),
                               block(squeezed, squeezed, bg, bd), query),
                         in<T>("k", cache, block(squeezed, squeezed, bp, bd), paged),
                         in<T>("v", cache, block(squeezed, squeezed, bp, bd), paged),
                         out<T>("o", shape(batch, kv_heads, group, head_dim),
                                block(squeezed, squeezed, bg, bd), query),
                         accum<float>("acc", bg, bd), accum<float>("m", bg, Int<1>{}),
                         accum<float>("l", bg, Int<1>{}));
  }

  /// q and o once, lengths and table once; of k and v a page whenever another one is wanted.
  Bytes hbm_bytes(Tiles, Target target) const {
    std::int64_t brought = 0;
    int there = -1;
    for (int b = 0; b < batch; ++b) {
      for (int h = 0; h < kv_heads; ++h) {
        if (!target.keeps_blocks) there = -1;
        for (int p = first_page(b); p < end_page(b); ++p) {
          const int wanted = table[b * pages + p] * kv_heads + h;
          brought += wanted != there ? 1 : 0;
          there = wanted;
        }
      }
    }
    const std::int64_t queries = std::int64_t{batch} * kv_heads * group * head_dim * kBytes<T>;
    return {queries + 2 * brought * page * head_dim * kBytes<T> +
                (std::int64_t{lengths.size} + table.size) * kBytes<int>,
            queries};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class O, class Acc, class M, class L>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, O o, Acc acc, M m, L l) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    const auto b = env.program_id(0);
    const auto key0 = env.program_id(2) * k.rows;
    const auto end = lengths[b];
    const auto begin = first_key(b);
    if (env.first(2)) {
      *acc = 0.f;      // (bg, bd) f32
      *m = kMinusInf;  // (bg, 1)
      *l = 0.f;        // (bg, 1)
    }
    auto s = load(dot(*q, transpose(*k)));  // (bg, bp) f32
    s = where_at(
        s,
        [=](auto, auto c) {
          const auto j = key0 + c;
          return j >= begin && j < end;
        },
        kMinusInf);
    auto m_new = load(max(*m, row_max(s)));                       // (bg, 1)
    auto shift = where(m_new == kMinusInf, 0.f, m_new * -scale);  // no key yet
    auto p = exp2(fma(s, scale, shift));                          // (bg, bp), in [0, 1]
    auto rescale = exp2(fma(*m, scale, shift));                   // (bg, 1)
    *l = *l * rescale + row_sum(p);
    *acc = *acc * rescale;
    *acc += dot(cast<T>(p), *v);  // (bg, bd) f32
    *m = m_new;
    if (env.last(2)) *o = cast<T>(*acc / where(*l == 0.f, 1.f, *l));  // (bg, bd) T
  }

  /// Sequences of uneven lengths, an empty one among several, in pages that lie anywhere.
  template <class Host>
  void prepare(Host& host, Tiles) {
    constexpr float kLog2E = 1.44269504f;
    scale = kLog2E / std::sqrt(static_cast<float>(head_dim));
    lengths = sequence_lengths(host, batch, pages * page);
    table = page_table(host, batch, pages);
    for (int b = 0; b < batch; ++b)
      check_pages(host, table, b * pages + first_page(b), b * pages + end_page(b));
  }
};

}  // namespace tessera::kernels
