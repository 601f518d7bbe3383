// Multi-head latent attention: one compressed vector and one rotary key per token, for all heads,
// in pages of a cache. Two kernels of one body.
//
//   mla            k[h,j] = c[j] wk[h],  v[h,j] = c[j] wv[h]
//                  s[h,i,j] = (q[h,i] . k[h,j] + qr[h,i] . kr[j]) / sqrt(3 rope)
//                  o[h,i] = sum_j softmax_j(s[h,i,j]) v[h,j]
//   mla_absorbed   queries come multiplied by wk^T, and wv is left to what reads o:
//                  s[h,i,j] = (q[h,i] . c[j] + qr[h,i] . kr[j]) / sqrt(3 rope)
//                  o[h,i] = sum_j softmax_j(s[h,i,j]) c[j]
//
// DeepSeek-V2, arXiv:2405.04434, section 2.1 and appendix C: there, and in Kimi K2, heads have 2
// rope columns without and rope with rotation. The queries of sequence b are its last: query i
// stands at lengths[b] - q_len + i, and sees keys up to its own (causal) or all. Absorbed, the
// queries of all heads are rows of one block, head by head, so that a page is brought once for
// them; otherwise each head makes keys and values of a page in VMEM. Pages as in paged_attention
// (arXiv:2309.06180), an online softmax as there.
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
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T, bool kAbsorbed>
struct LatentAttention {
  static constexpr KernelInfo info{
      .name = kAbsorbed ? "mla_absorbed" : "mla",
      .summary = kAbsorbed ? "multi-head latent attention over a paged cache, projections absorbed"
                           : "multi-head latent attention over a paged cache, keys made in VMEM",
      .math = kAbsorbed ? "o[h,i] = sum_j softmax_j((q[h,i] . c[j] + qr[h,i] . kr[j]) / sqrt(3 "
                          "rope)) c[j]"
                        : "o[h,i] = sum_j softmax_j((q[h,i] . c[j] wk[h] + qr[h,i] . kr[j]) / "
                          "sqrt(3 rope)) c[j] wv[h]",
      .cites = "arXiv:2405.04434, arXiv:2309.06180"};

  int batch = 1;
  int heads = 1;
  int q_len = 1;
  int rank = 0;
  int rope = 0;
  int page = 0;
  int pages = 0;
  int causal = 1;

  float scale = 0;    ///< of scores, and of base 2: log2(e) / sqrt(3 rope)
  Smem<int> lengths;  ///< keys of each sequence
  Smem<int> table;    ///< pages of each sequence, in its order

  static constexpr auto sizes = params(
      size("batch", &LatentAttention::batch, "sequences"),
      size("heads", &LatentAttention::heads, "query heads"),
      size("q_len", &LatentAttention::q_len, "queries of a sequence, its last tokens"),
      size("rank", &LatentAttention::rank, "columns of c"),
      size("rope", &LatentAttention::rope,
           "columns of rotary keys; heads have 2 rope others, and 2 rope of values"),
      size("page", &LatentAttention::page, "keys of a page"),
      size("pages", &LatentAttention::pages, "pages of a sequence (--input table=, lengths=)"),
      size("causal", &LatentAttention::causal, "1: no key after the query"));
  static constexpr auto tiles =
      tile_names(tile("bq"), tile("bp", "page"), tile("bc", "rank"), tile("br", "rope"));
  static constexpr std::array absorbed_cases{
      Case{"aligned", {3, 16, 1, 256, 64, 64, 4, 1}, {16, 64, 256, 64}},
      Case{"ragged, two queries", {4, 5, 2, 96, 16, 16, 5, 1}, {8, 16, 96, 16}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 1, 0}, {1, 1, 1, 1}}};
  static constexpr std::array whole_cases{
      Case{"aligned", {1, 2, 128, 128, 32, 64, 4, 1}, {64, 64, 128, 32}},
      Case{"ragged", {4, 3, 41, 96, 16, 16, 5, 1}, {32, 16, 96, 16}},
      Case{"every key", {2, 2, 20, 64, 16, 32, 2, 0}, {32, 32, 64, 16}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 1, 0}, {1, 1, 1, 1}}};
  static constexpr auto cases = cases_of<kAbsorbed>(absorbed_cases, whole_cases);

  const char* valid(Tiles t) const {
    return t[1] == page && t[2] == rank && t[3] == rope
               ? nullptr
               : "blocks are whole: bp = page, bc = rank, br = rope";
  }

  /// Query heads that are rows of a block, and what is left of them to the grid.
  TESSERA_FN int together() const { return kAbsorbed ? heads : 1; }
  TESSERA_FN int apart() const { return kAbsorbed ? 1 : heads; }
  /// Rows of queries of one cell (b, h).
  TESSERA_FN int rows() const { return q_len * together(); }
  /// One past the last page that rows [row0, row0 + bq) see a key of; at least one.
  TESSERA_FN auto end_page(auto b, auto row0, int bq) const {
    const auto last = (lesser(row0 + bq, rows()) - 1) / together();
    const auto end = causal != 0 ? lengths[b] - (q_len - 1) + last : lengths[b] + 0 * last;
    return greater((greater(end, 0) + (page - 1)) / page, 1);
  }

  /// A scratch or an operand that only keys that are made have.
  template <class Extent>
  TESSERA_FN static auto made(Extent extent) {
    if constexpr (kAbsorbed)
      return Int<1>{};
    else
      return extent;
  }

  TESSERA_FN auto spec(auto bq, auto bp, auto bc, auto br) const {
    const auto self = *this;
    const auto pages_of = table;
    const int each = pages;
    const auto bn = br + br;
    const auto bo = [=] {
      if constexpr (kAbsorbed)
        return bc;
      else
        return bn;
    }();
    auto query = [](auto b, auto h, auto i, auto) { return at(b, h, i, 0); };
    auto head = [](auto, auto h, auto, auto) { return at(h, 0, 0); };
    auto paged = [pages_of, each](auto b, auto, auto, auto p) {
      return at(pages_of[b * each + p], 0, 0);
    };
    const int q_cols = kAbsorbed ? rank : 2 * rope;
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(apart()).as("h"),
             parallel(ceil_div(rows(), bq)).as("q"),
             arbitrary(0, [self, bq](auto b, auto, auto i) { return self.end_page(b, i * bq, bq); })
                 .as("page")),
        scalars("lengths", lengths), scalars("table", table),
        in<T>("q", shape(batch, apart(), rows(), q_cols), block(squeezed, squeezed, bq, bo), query)
            .pad(0),
        in<T>("qr", shape(batch, apart(), rows(), rope), block(squeezed, squeezed, bq, br), query)
            .pad(0),
        in<T>("c", shape(batch * pages, page, rank), block(squeezed, bp, bc), paged),
        in<T>("kr", shape(batch * pages, page, rope), block(squeezed, bp, br), paged),
        in<T>("wk", shape(heads, rank, 2 * rope), block(squeezed, made(bc), made(bn)), head)
            .when(!kAbsorbed),
        in<T>("wv", shape(heads, rank, 2 * rope), block(squeezed, made(bc), made(bn)), head)
            .when(!kAbsorbed),
        out<T>("o", shape(batch, apart(), rows(), q_cols), block(squeezed, squeezed, bq, bo),
               query),
        vmem<T>("key", made(bp), made(bn)), vmem<T>("value", made(bp), made(bn)),
        accum<float>("acc", bq, bo), accum<float>("m", bq, Int<1>{}),
        accum<float>("l", bq, Int<1>{}));
  }

  /// Queries and o once, lengths and table once; of c and kr a page whenever another one is wanted,
  /// projections for each head, or each block of queries where none stays.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const int q_blocks = ceil_div(rows(), t[0]);
    std::int64_t brought = 0;
    int there = -1;
    for (int b = 0; b < batch; ++b) {
      for (int cell = 0; cell < apart() * q_blocks; ++cell) {
        if (!target.keeps_blocks) there = -1;
        for (int p = 0; p < end_page(b, cell % q_blocks * t[0], t[0]); ++p) {
          const int wanted = table[b * pages + p];
          brought += wanted != there ? 1 : 0;
          there = wanted;
        }
      }
    }
    const std::int64_t queries = std::int64_t{batch} * apart() * rows();
    const std::int64_t q_cols = kAbsorbed ? rank : 2 * rope;
    const std::int64_t heads_in_turn = !target.keeps_blocks ? std::int64_t{batch} * heads * q_blocks
                                       : heads > 1          ? std::int64_t{batch} * heads
                                                            : 1;
    const std::int64_t projections = kAbsorbed ? 0 : heads_in_turn * 4 * rank * rope;
    return {(queries * (q_cols + rope) + brought * page * (rank + rope) + projections) * kBytes<T> +
                (std::int64_t{lengths.size} + table.size) * kBytes<int>,
            queries * q_cols * kBytes<T>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class Qr, class C, class Kr, class Wk, class Wv, class O, class Key,
            class Value, class Acc, class M, class L>
  TESSERA_FN void operator()(Env& env, Q q, Qr qr, C c, Kr kr, Wk wk, Wv wv, O o, Key key,
                             Value value, Acc acc, M m, L l) const {
    if (env.first(3)) {
      *acc = 0.f;                                    // (bq, bo) f32
      *m = -std::numeric_limits<float>::infinity();  // (bq, 1)
      *l = 0.f;                                      // (bq, 1)
    }
    if constexpr (kAbsorbed) {
      attend(env, q, qr, kr, c, c, acc, m, l);
    } else {
      *key = cast<T>(load(dot(*c, *wk)));    // (bp, bn) T
      *value = cast<T>(load(dot(*c, *wv)));  // (bp, bn) T
      attend(env, q, qr, kr, key, value, acc, m, l);
    }
    if (env.last(3)) *o = cast<T>(*acc / where(*l == 0.f, 1.f, *l));  // (bq, bo) T
  }

  /// One page of keys: an online softmax, Milakov & Gimelshein, arXiv:1805.02867.
  template <class Env, class Q, class Qr, class Kr, class Key, class Value, class Acc, class M,
            class L>
  TESSERA_FN void attend(Env& env, Q q, Qr qr, Kr kr, Key key, Value value, Acc acc, M m,
                         L l) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    const auto length = lengths[env.program_id(0)];
    const auto row0 = env.program_id(2) * q.rows;
    const auto key0 = env.program_id(3) * kr.rows;
    const int n = together();
    const auto first = length - q_len;  // the place of the first query
    const auto rotated = load(dot(*qr, transpose(*kr)));
    auto s = load(load(dot(*q, transpose(*key))) + rotated);  // (bq, bp) f32
    if (causal != 0) {
      s = where_at(
          s,
          [=](auto r, auto j) { return key0 + j < length && (key0 + j - first) * n <= row0 + r; },
          kMinusInf);
    } else {
      s = where_at(
          s, [=](auto, auto j) { return key0 + j < length; }, kMinusInf);
    }
    auto m_new = load(max(*m, row_max(s)));                       // (bq, 1)
    auto shift = where(m_new == kMinusInf, 0.f, m_new * -scale);  // no key yet
    auto p = exp2(fma(s, scale, shift));                          // (bq, bp), in [0, 1]
    auto rescale = exp2(fma(*m, scale, shift));                   // (bq, 1)
    *l = *l * rescale + row_sum(p);
    *acc = *acc * rescale;
    *acc += dot(cast<T>(p), *value);  // (bq, bo) f32
    *m = m_new;
  }

  template <class Host>
  void prepare(Host& host, Tiles t) {
    constexpr float kLog2E = 1.44269504f;
    scale = kLog2E / std::sqrt(static_cast<float>(3 * rope));
    lengths = sequence_lengths(host, batch, pages * page);
    table = page_table(host, batch, pages);
    for (int b = 0; b < batch; ++b)
      check_pages(host, table, b * pages, b * pages + end_page(b, rows() - 1, t[0]));
  }
};

template <class T>
using Mla = LatentAttention<T, false>;

}  // namespace tessera::kernels
