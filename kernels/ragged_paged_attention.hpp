// Attention of the new tokens of several sequences, prefilled and decoded in one launch, over a
// paged cache that takes their keys and values in the same pass.
//
//   k[place(b, j)] = k_new[t], v likewise,   j = lengths[b] - n[b] + (t - starts[b])
//   o[t,h] = sum_j softmax_j(q[t,h] . k[j] / sqrt(head_dim)) v[j],   j <= the place of token t, and
//   j > it - window
//
// Sequence b has tokens starts[b] to starts[b + 1], n[b] of them, one when it is decoded, and
// lengths[b] keys with theirs; key j is row j % page of page table[b, j / page]. As vLLM's and
// JAX's ragged paged attention (Kwon et al., arXiv:2309.06180), whose cells are blocks of tokens;
// here a cell is a key head of a sequence, so that what it reads of the cache no other cell writes,
// in any order of cells. Rows come one by one, an index of a leading dim, which no TPU tiles; pages
// whole, two under way; a page that gets some rows is brought, changed and put back. Online
// softmax: Milakov & Gimelshein, arXiv:1805.02867.
#pragma once

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

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
struct RaggedPagedAttention {
  static constexpr KernelInfo info{
      .name = "ragged_paged_attention",
      .summary = "attention of prefilled and decoded tokens over a paged cache, updated in place",
      .math =
          "o[t,h] = sum_j softmax_j(q[t,h] . k[j] / sqrt(head_dim)) v[j],  k[j] in page "
          "table[b, j / page], the last ones from k_new",
      .cites = "arXiv:2309.06180"};
  static constexpr int kSlots = 2;  ///< pages, and rows, under way

  int sequences = 1;
  int kv_heads = 1;
  int group = 1;
  int head_dim = 0;
  int page = 0;
  int pages = 0;
  int tokens = 0;
  int window = 0;

  float scale = 0;    ///< of q . k, and of base 2: log2(e) / sqrt(head_dim)
  Smem<int> starts;   ///< first token of each sequence, and tokens: sequences + 1
  Smem<int> lengths;  ///< keys of each sequence, its new tokens' too
  Smem<int> table;    ///< pages of each sequence, in its order

  using Self = RaggedPagedAttention;
  static constexpr auto sizes =
      params(size("sequences", &Self::sequences, "sequences"),
             size("kv_heads", &Self::kv_heads, "key and value heads"),
             size("group", &Self::group, "query heads of each"),
             size("head_dim", &Self::head_dim, "columns of q, k, v and o"),
             size("page", &Self::page, "keys of a page"),
             size("pages", &Self::pages, "pages of a sequence (--input table=, lengths=, starts=)"),
             size("tokens", &Self::tokens, "new tokens of all sequences"),
             size("window", &Self::window, "last keys that a token sees; 0: all"));
  static constexpr auto tiles =
      tile_names(tile("bt"), tile("bg", "group"), tile("bp", "page"), tile("bd", "head_dim"));
  static constexpr std::array cases{Case{"aligned", {4, 2, 4, 64, 32, 4, 80, 0}, {16, 4, 32, 64}},
                                    Case{"window", {3, 1, 2, 64, 16, 6, 70, 40}, {8, 2, 16, 64}},
                                    Case{"ragged", {5, 2, 3, 80, 16, 5, 41, 0}, {8, 3, 16, 80}},
                                    Case{"degenerate", {1, 1, 1, 1, 1, 1, 1, 0}, {1, 1, 1, 1}}};

  const char* valid(Tiles t) const {
    return t[1] == group && t[2] == page && t[3] == head_dim
               ? nullptr
               : "blocks are whole: bg = group, bp = page, bd = head_dim";
  }

  TESSERA_FN auto new_tokens(auto b) const { return starts[b + 1] - starts[b]; }
  /// At least one, in which a sequence with nothing new has no token.
  TESSERA_FN auto blocks(auto b, int bt) const {
    return greater((new_tokens(b) + (bt - 1)) / bt, 1);
  }
  /// The place in its sequence of the first token of block i.
  TESSERA_FN auto place(auto b, auto i, int bt) const {
    return lengths[b] - new_tokens(b) + i * bt;
  }
  /// The pages [lo, hi) of keys that a token of block i sees; at least one.
  TESSERA_FN auto first_page(auto b, auto i, int bt) const {
    const auto key = greater(place(b, i, bt) - (window > 0 ? window - 1 : pages * page), 0);
    return lesser(key / page, pages - 1);
  }
  TESSERA_FN auto end_page(auto b, auto i, int bt) const {
    const auto end = lesser(place(b, i, bt) + bt, lengths[b]);
    return greater((end + (page - 1)) / page, first_page(b, i, bt) + 1);
  }

  template <int A, int B>
  TESSERA_FN static constexpr Int<A * B> product_of(Int<A>, Int<B>) {
    return {};
  }
  static constexpr int product_of(int a, int b) { return a * b; }

  TESSERA_FN auto spec(auto bt, auto bg, auto bp, auto bd) const {
    const auto self = *this;
    const auto rows = product_of(bt, bg);
    const auto cache = shape(sequences * pages * kv_heads, page, head_dim);
    const auto queries = shape(tokens * kv_heads, group, head_dim);
    const auto added = shape(tokens * kv_heads, 1, head_dim);
    return tessera::spec(
        grid(parallel(sequences).as("b"), parallel(kv_heads).as("h"),
             arbitrary(0, [self, bt](auto b, auto) { return self.blocks(b, bt); }).as("block"),
             arbitrary([self, bt](auto b, auto, auto i) { return self.first_page(b, i, bt); },
                       [self, bt](auto b, auto, auto i) { return self.end_page(b, i, bt); })
                 .as("page")),
        scalars("starts", starts), scalars("lengths", lengths), scalars("table", table),
        hbm_in<T>("q", queries), hbm_in<T>("k_new", added), hbm_in<T>("v_new", added),
        hbm_in<T>("k_cache", cache), hbm_in<T>("v_cache", cache), hbm_out<T>("o", queries),
        hbm_out<T>("k", cache).aliases("k_cache"), hbm_out<T>("v", cache).aliases("v_cache"),
        vmem<T>("few", bt, bg, bd), vmem<float>("rows", rows, bd),
        vmem<T>("row", Int<2 * kSlots>{}, Int<1>{}, bd), vmem<T>("key", Int<kSlots>{}, bp, bd),
        vmem<T>("value", Int<kSlots>{}, bp, bd), vmem<float>("keys", bp, bd),
        vmem<float>("values", bp, bd), dma_sem("of_q", Int<1>{}),
        dma_sem("of_rows", Int<2 * kSlots>{}), dma_sem("of_pages", Int<2 * kSlots>{}),
        accum<float>("acc", rows, bd), accum<float>("m", rows, Int<1>{}),
        accum<float>("l", rows, Int<1>{}));
  }

  /// Tokens once; each page with new ones once there, and back if others are in it; the pages that
  /// each block of tokens sees.
  Bytes hbm_bytes(Tiles t, Target) const {
    std::int64_t seen = 0;
    std::int64_t changed = 0;
    std::int64_t brought = 0;
    for (int b = 0; b < sequences; ++b) {
      for (int i = 0; i < blocks(b, t[0]); ++i)
        seen += end_page(b, i, t[0]) - first_page(b, i, t[0]);
      const int first = lengths[b] - new_tokens(b);
      for (int p = first / page; p * page < lengths[b] && first < lengths[b]; ++p) {
        ++changed;
        brought += p * page < first || (p + 1) * page > lengths[b] ? 1 : 0;
      }
    }
    const std::int64_t of_page = std::int64_t{2} * page * head_dim * kBytes<T>;
    const std::int64_t of_rows = std::int64_t{tokens} * kv_heads * head_dim * kBytes<T>;
    return {kv_heads * (seen + brought) * of_page + of_rows * (group + 2) +
                (std::int64_t{starts.size} + lengths.size + table.size) * kBytes<int>,
            kv_heads * changed * of_page + of_rows * group};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class KNew, class VNew, class KCache, class VCache, class O,
            class K, class V, class Few, class Rows, class Row, class Key, class Value, class Keys,
            class Values, class OfQ, class OfRows, class OfPages, class Acc, class M, class L>
  TESSERA_FN void operator()(Env& env, Q q, KNew k_new, VNew v_new, KCache, VCache, O o, K k, V v,
                             Few few, Rows rows, Row row, Key key, Value value, Keys keys,
                             Values values, OfQ of_q, OfRows of_rows, OfPages of_pages, Acc acc,
                             M m, L l) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    const auto b = env.program_id(0);
    const auto h = env.program_id(1);
    const auto block = env.program_id(2);
    const auto p = env.program_id(3);
    const auto of_token = few.slot(0).rows;
    const int bt = rows.rows / of_token;
    const auto token = starts[b] + block * bt;
    const auto count = lesser(starts[b + 1] - token, bt);
    const auto page_of = [&](auto array, auto slots, auto n, auto sems, int first) {
      return make_async_copy(array.at(table[b * pages + n] * kv_heads + h), slots.slot(n % kSlots),
                             sems[first + n % kSlots]);
    };
    const auto query = [&](auto i) {
      return make_async_copy(q.at((token + i) * kv_heads + h), few.slot(i), of_q[0]);
    };
    const auto result = [&](auto i) {
      return make_async_copy(few.slot(i), o.at((token + i) * kv_heads + h), of_q[0]);
    };
    const auto start = [&](auto n) {
      page_of(k, key, n, of_pages, 0).start();
      page_of(v, value, n, of_pages, kSlots).start();
    };
    if (env.first(3)) {
      if (env.first(2) && count > 0)
        update(env, k_new, v_new, k, v, row, key, value, keys, values, of_rows, of_pages);
      start(p);
      env.loop(0, count, [&](auto i) { query(i).start(); });
      env.loop(0, count, [&](auto i) { query(i).wait(); });
      *rows = 0.f;  // (bt bg, bd) f32, whose rows need no neighbour, as those of bf16 do
      env.loop(0, count, [&](auto i) {
        *rows.row_range(i * of_token, of_token) = cast<float>(*few.slot(i));
      });
      *acc = 0.f;      // (bt bg, bd) f32
      *m = kMinusInf;  // (bt bg, 1)
      *l = 0.f;        // (bt bg, 1)
    }
    if (!env.last(3)) start(p + 1);
    page_of(k, key, p, of_pages, 0).wait();
    page_of(v, value, p, of_pages, kSlots).wait();
    const auto first = p * page - place(b, block, bt);  // key 0 of the page, from the block's place
    const int g = of_token;
    const int w = window;
    auto s = load(dot(cast<T>(*rows), transpose(*key.slot(p % kSlots))));  // (bt bg, bp) f32
    if (w > 0) {
      s = where_at(
          s, [=](auto r, auto c) { return (first + c) * g <= r && (first + c + w) * g > r; },
          kMinusInf);
    } else {
      s = where_at(
          s, [=](auto r, auto c) { return (first + c) * g <= r; }, kMinusInf);
    }
    auto m_new = load(max(*m, row_max(s)));                       // (bt bg, 1)
    auto shift = where(m_new == kMinusInf, 0.f, m_new * -scale);  // no key yet
    auto p_row = load(exp2(fma(s, scale, shift)));                // (bt bg, bp), in [0, 1]
    auto rescale = exp2(fma(*m, scale, shift));                   // (bt bg, 1)
    *l = *l * rescale + row_sum(p_row);
    *acc = *acc * rescale;
    *acc += dot(cast<T>(p_row), *value.slot(p % kSlots));  // (bt bg, bd) f32
    *m = m_new;
    if (env.last(3)) {
      *rows = *acc / where(*l == 0.f, 1.f, *l);  // (bt bg, bd) f32
      env.loop(0, count, [&](auto i) {
        *few.slot(i) = cast<T>(*rows.row_range(i * of_token, of_token));
        result(i).start();
      });
      env.loop(0, count, [&](auto i) { result(i).wait(); });
    }
  }

  /// Keys and values of a sequence's new tokens into their pages.
  template <class Env, class KNew, class VNew, class K, class V, class Row, class Key, class Value,
            class Keys, class Values, class OfRows, class OfPages>
  TESSERA_FN void update(Env& env, KNew k_new, VNew v_new, K k, V v, Row row, Key key, Value value,
                         Keys keys, Values values, OfRows of_rows, OfPages of_pages) const {
    const auto b = env.program_id(0);
    const auto h = env.program_id(1);
    const auto end = lengths[b];
    const auto first = end - new_tokens(b);
    const auto copy = [&](auto array, auto j, int slots) {
      return make_async_copy(array.at((starts[b] + j - first) * kv_heads + h),
                             row.slot(slots + j % kSlots), of_rows[slots + j % kSlots]);
    };
    const auto begin = [&](auto j) {
      copy(k_new, j, 0).start();
      copy(v_new, j, kSlots).start();
    };
    env.loop(first / page, (end + (page - 1)) / page, [&](auto n) {
      const auto at = table[b * pages + n] * kv_heads + h;
      const auto lo = greater(first, n * page);
      const auto hi = lesser(end, (n + 1) * page);
      begin(lo);
      if (lo > n * page || hi < (n + 1) * page) {
        make_async_copy(k.at(at), key.slot(0), of_pages[0]).start();
        make_async_copy(v.at(at), value.slot(0), of_pages[1]).start();
        make_async_copy(k.at(at), key.slot(0), of_pages[0]).wait();
        make_async_copy(v.at(at), value.slot(0), of_pages[1]).wait();
        *keys = cast<float>(*key.slot(0));      // (bp, bd) f32
        *values = cast<float>(*value.slot(0));  // (bp, bd) f32
      }
      env.loop(lo, hi, [&](auto j) {
        if (j + 1 < hi) begin(j + 1);
        copy(k_new, j, 0).wait();
        copy(v_new, j, kSlots).wait();
        *keys.row(j - n * page) = cast<float>(*row.slot(j % kSlots));
        *values.row(j - n * page) = cast<float>(*row.slot(kSlots + j % kSlots));
      });
      *key.slot(0) = cast<T>(*keys);
      *value.slot(0) = cast<T>(*values);
      make_async_copy(key.slot(0), k.at(at), of_pages[0]).start();
      make_async_copy(value.slot(0), v.at(at), of_pages[1]).start();
      make_async_copy(key.slot(0), k.at(at), of_pages[0]).wait();
      make_async_copy(value.slot(0), v.at(at), of_pages[1]).wait();
    });
  }

  /// A prefill, decoded sequences, chunks of longer ones, and ones that have nothing new.
  template <class Host>
  void prepare(Host& host, Tiles t) {
    constexpr float kLog2E = 1.44269504f;
    scale = kLog2E / std::sqrt(static_cast<float>(head_dim));
    const int most = pages * page;
    if (tokens > sequences * most) host.fail("tokens is at most sequences pages page");
    std::vector<int> fresh(static_cast<std::size_t>(sequences));
    int left = tokens;
    for (int b = sequences - 1; b >= 0; --b) {
      const int room = b * most;  // of those before it
      const int least = greater(left - room, 0);
      const int drawn = b == 0 ? left : b % 2 == 1 ? 1 : host.random(0, most);
      fresh[static_cast<std::size_t>(b)] = greater(least, lesser(lesser(drawn, left), most));
      left -= fresh[static_cast<std::size_t>(b)];
    }
    std::vector<int> first(1);
    std::vector<int> keys;
    for (const int n : fresh) {
      first.push_back(first.back() + n);
      keys.push_back(keys.empty() ? n : host.random(n, most));
    }
    starts = host.scalars("starts", std::move(first));
    lengths = host.scalars("lengths", std::move(keys));
    if (starts.size != sequences + 1 || starts[0] != 0 || starts[sequences] != tokens)
      host.fail("starts has an entry per sequence, from 0, and tokens");
    if (lengths.size != sequences) host.fail("lengths has one entry per sequence");
    table = page_table(host, sequences, pages);
    for (int b = 0; b < sequences; ++b) {
      if (new_tokens(b) < 0) host.fail("starts rise");
      if (lengths[b] < new_tokens(b) || lengths[b] > most)
        host.fail("lengths lie in [new tokens, pages page]");
      const int last = blocks(b, t[0]) - 1;
      const int from = lesser(first_page(b, 0, t[0]), (lengths[b] - new_tokens(b)) / page);
      check_pages(host, table, b * pages + from, b * pages + end_page(b, last, t[0]));
    }
  }
};

}  // namespace tessera::kernels
