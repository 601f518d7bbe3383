// Attention under a mask that the host knows: blocks without a key that is seen are neither brought
// nor computed, and blocks where all are seen have no mask.
//
//   o[b,h,i] = sum_j p[i,j] v[j] / sum_j p[i,j],   p[i,j] = exp(s[i,j] - max_j s[i,j])
//   s[i,j] = q[i] . k[j] / sqrt(head_dim), -inf where mask[i,j] is 0;   lse = log sum_j exp(s[i,j])
//
// As splash attention of JAX (jax.experimental.pallas.ops.tpu.splash_attention), which is Dao et
// al., arXiv:2205.14135, over a list of blocks: for every block of queries the host lists the live
// blocks of keys (visits), whether each is full, and which block of the mask it has if it is not;
// equal blocks are one, as on a diagonal. Masks are objects (LiveKeys) or an array, `mask` (q_len,
// kv_len). Query head h reads key head h / (heads / kv_heads). A row that sees nothing is zero.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/live_blocks.hpp"
#include "sim/body/kernel.hpp"
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

namespace tessera::kernels {

template <class T>
struct SplashAttention {
  static constexpr KernelInfo info{
      .name = "splash_attention",
      .summary = "attention over the live blocks of a mask that the host knows",
      .math = "o[i] = sum_j softmax_j(mask[i,j] ? q[i] . k[j] / sqrt(head_dim) : -inf) v[j]",
      .cites = "arXiv:2205.14135"};

  int batch = 1;
  int heads = 1;
  int kv_heads = 1;
  int q_len = 0;
  int kv_len = 0;
  int head_dim = 0;
  int mask = LiveKeys::kFull;
  int window = 1;
  int with_lse = 0;

  float scale = 0;  ///< of q . k, 1 / sqrt(head_dim)
  Visits visits;    ///< of blocks of queries

  using Self = SplashAttention;
  static constexpr auto sizes = params(
      size("batch", &Self::batch, "sequences"), size("heads", &Self::heads, "query heads"),
      size("kv_heads", &Self::kv_heads, "key and value heads; divides heads"),
      size("q_len", &Self::q_len, "queries"), size("kv_len", &Self::kv_len, "keys"),
      size("head_dim", &Self::head_dim, "columns of q, k, v and o"),
      size(
          "mask", &Self::mask,
          "0: full; 1: causal; 2: local; 3: causal local; 4: chunks, and a first one that all see; "
          "5: an array (--input mask=)"),
      size("window", &Self::window, "of masks 2 to 4: keys on each side, or of a chunk"),
      size("lse", &Self::with_lse, "1: write lse, for the gradients"));
  static constexpr auto tiles = tile_names(tile("bq"), tile("bk"), tile("bd", "head_dim"));
  static constexpr std::array cases{
      Case{"aligned, causal", {1, 2, 2, 256, 256, 64, 1, 1, 0}, {64, 64, 64}},
      Case{"full", {1, 1, 1, 128, 128, 64, 0, 1, 0}, {64, 64, 64}},
      Case{"ragged, local, grouped queries", {2, 4, 2, 150, 170, 64, 2, 30, 1}, {64, 64, 64}},
      Case{"chunks", {1, 2, 1, 256, 256, 64, 4, 64, 0}, {64, 64, 64}},
      Case{"array", {1, 2, 2, 200, 256, 64, 5, 1, 0}, {64, 64, 64}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 3, 1, 1}, {1, 1, 1}}};

  const char* valid(Tiles t) const {
    if (t[2] < head_dim) return "bd must hold a whole row: bd >= head_dim";
    if (mask < LiveKeys::kFull || mask > LiveKeys::kArray) return "mask is 0 to 5";
    if (window < 1) return "window is 1 or more";
    return heads % kv_heads == 0 ? nullptr : "kv_heads must divide heads";
  }

  TESSERA_FN auto spec(auto bq, auto bk, auto bd) const {
    const auto start = visits.start;
    const auto key_block = visits.block;
    const auto of_mask = visits.mask;
    const int group = heads / kv_heads;
    auto q_block = [](auto b, auto h, auto i, auto) { return at(b, h, i, 0); };
    auto kv_block = [group, key_block](auto b, auto h, auto, auto visit) {
      return at(b, h / group, key_block[visit], 0);
    };
    const auto queries = shape(batch, heads, q_len, head_dim);
    const auto keys = shape(batch, kv_heads, kv_len, head_dim);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(heads).as("h"),
             parallel(ceil_div(q_len, bq)).as("q"),
             arbitrary([start](auto, auto, auto i) { return start[i]; },
                       [start](auto, auto, auto i) { return start[i + 1]; })
                 .as("visit")),
        scalars("visit_start", visits.start), scalars("visit_block", visits.block),
        scalars("visit_masked", visits.masked), scalars("visit_mask", visits.mask),
        hbm_in<std::int8_t>("mask", shape(q_len, kv_len)).when(mask == LiveKeys::kArray),
        in<T>("q", queries, block(squeezed, squeezed, bq, bd), q_block).pad(0),
        in<T>("k", keys, block(squeezed, squeezed, bk, bd), kv_block).pad(0),
        in<T>("v", keys, block(squeezed, squeezed, bk, bd), kv_block).pad(0),
        in<std::int8_t>(
            "mask_blocks", shape(greater(visits.masks, 1), bq, bk), block(squeezed, bq, bk),
            [of_mask](auto, auto, auto, auto visit) { return at(of_mask[visit], 0, 0); })
            .when(visits.masks > 0),
        out<T>("o", queries, block(squeezed, squeezed, bq, bd), q_block),
        out<float>("lse", shape(batch, heads, q_len, 1), block(squeezed, squeezed, bq, Int<1>{}),
                   q_block)
            .when(with_lse != 0),
        accum<float>("acc", bq, bd), accum<float>("m", bq, Int<1>{}),
        accum<float>("l", bq, Int<1>{}));
  }

  /// q and results once; of keys, values and masks a block whenever a visit wants another one;
  /// visits once. `mask` itself is the host's.
  Bytes hbm_bytes(Tiles t, Target target) const {
    VisitWalk walk{visits, kv_len, t[1], {}};
    for (int head = 0; head < batch * heads; ++head) {
      for (int i = 0; i < ceil_div(q_len, t[0]); ++i) {
        if (!target.keeps_blocks) walk.forget();
        walk.row(i, head / (heads / kv_heads));
      }
    }
    const std::int64_t rows = std::int64_t{batch} * heads * q_len;
    return {(rows + 2 * walk.brought.elems) * head_dim * kBytes<T> +
                walk.brought.masks * t[0] * t[1] + walk.lists() * kBytes<int>,
            rows * (head_dim * kBytes<T> + (with_lse != 0 ? kBytes<float> : 0))};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Mask, class Q, class K, class V, class Masks, class O, class Lse,
            class Acc, class M, class L>
  TESSERA_FN void operator()(Env& env, Mask, Q q, K k, V v, Masks mask_blocks, O o, Lse lse,
                             Acc acc, M m, L l) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    constexpr float kLog2E = 1.44269504f;
    if (env.first(3)) {
      *acc = 0.f;      // (bq, bd) f32
      *m = kMinusInf;  // (bq, 1)
      *l = 0.f;        // (bq, 1)
    }
    auto s = load(dot(*q, transpose(*k)));  // (bq, bk) f32
    if (visits.masks > 0) {
      if (visits.masked[env.program_id(3)] != 0)
        s = where(cast<float>(*mask_blocks) == 0.f, kMinusInf, s);
    }
    const float factor = scale * kLog2E;
    auto m_new = load(max(*m, row_max(s)));                        // (bq, 1)
    auto shift = where(m_new == kMinusInf, 0.f, m_new * -factor);  // a row with no key yet
    auto p = exp2(fma(s, factor, shift));                          // (bq, bk), in [0, 1]
    auto rescale = exp2(fma(*m, factor, shift));                   // (bq, 1)
    *l = *l * rescale + row_sum(p);
    *acc = *acc * rescale;
    *acc += dot(cast<T>(p), *v);  // (bq, bd) f32
    *m = m_new;
    if (env.last(3)) {
      *o = cast<T>(*acc / where(*l == 0.f, 1.f, *l));  // (bq, bd) T
      if (with_lse != 0) *lse = *m * scale + log(*l);  // (bq, 1) f32
    }
  }

  template <class Host>
  void prepare(Host& host, Tiles t) {
    scale = 1.f / std::sqrt(static_cast<float>(head_dim));
    visits = live_blocks(host, host_mask(host, {mask, window}, q_len, kv_len), t[0], t[1], false);
  }
};

}  // namespace tessera::kernels
