// Gradient of splash_attention by its queries, over the same live blocks of a mask.
//
//   dq[i] = scale sum_j ds[i,j] k[j],   ds[i,j] = p[i,j] (dout[i] . v[j] - delta[i])
//   p[i,j] = mask[i,j] ? exp(scale q[i] . k[j] - lse[i]) : 0,   delta[i] = dout[i] . o[i]
//
// Dao, arXiv:2307.08691, algorithm 2, as in kernels/flash_attention_dq.hpp; lists, masks and their
// meaning: kernels/splash_attention.hpp.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/live_blocks.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

template <class T>
struct SplashAttentionDq {
  static constexpr KernelInfo info{
      .name = "splash_attention_dq",
      .summary = "gradient of splash_attention by its queries",
      .math =
          "dq[i] = scale sum_j ds[i,j] k[j],  ds[i,j] = (mask[i,j] ? exp(s[i,j] - lse[i]) : 0) "
          "(dout[i] . v[j] - delta[i])",
      .cites = "arXiv:2307.08691"};

  int batch = 1;
  int heads = 1;
  int kv_heads = 1;
  int q_len = 0;
  int kv_len = 0;
  int head_dim = 0;
  int mask = LiveKeys::kFull;
  int window = 1;

  float scale = 0;  ///< of q . k, 1 / sqrt(head_dim)
  Visits visits;    ///< of blocks of queries

  using Self = SplashAttentionDq;
  static constexpr auto sizes = params(
      size("batch", &Self::batch, "sequences"), size("heads", &Self::heads, "query heads"),
      size("kv_heads", &Self::kv_heads, "key and value heads; divides heads"),
      size("q_len", &Self::q_len, "queries"), size("kv_len", &Self::kv_len, "keys"),
      size("head_dim", &Self::head_dim, "columns of q, k, v and dq"),
      size(
          "mask", &Self::mask,
          "0: full; 1: causal; 2: local; 3: causal local; 4: chunks, and a first one that all see; "
          "5: an array (--input mask=)"),
      size("window", &Self::window, "of masks 2 to 4: keys on each side, or of a chunk"));
  static constexpr auto tiles = tile_names(tile("bq"), tile("bk"), tile("bd", "head_dim"));
  static constexpr std::array cases{
      Case{"aligned, causal", {1, 2, 2, 256, 256, 64, 1, 1}, {64, 64, 64}},
      Case{"full", {1, 1, 1, 128, 128, 64, 0, 1}, {64, 64, 64}},
      Case{"ragged, local, grouped queries", {2, 4, 2, 150, 170, 64, 2, 30}, {64, 64, 64}},
      Case{"chunks", {1, 2, 1, 256, 256, 64, 4, 64}, {64, 64, 64}},
      Case{"array", {1, 2, 2, 200, 256, 64, 5, 1}, {64, 64, 64}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 3, 1}, {1, 1, 1}}};

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
    const auto rows = shape(batch, heads, q_len, 1);
    const auto of_q = block(squeezed, squeezed, bq, bd);
    const auto of_kv = block(squeezed, squeezed, bk, bd);
    const auto of_rows = block(squeezed, squeezed, bq, Int<1>{});
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(heads).as("h"),
             parallel(ceil_div(q_len, bq)).as("q"),
             arbitrary([start](auto, auto, auto i) { return start[i]; },
                       [start](auto, auto, auto i) { return start[i + 1]; })
                 .as("visit")),
        scalars("visit_start", visits.start), scalars("visit_block", visits.block),
        scalars("visit_masked", visits.masked), scalars("visit_mask", visits.mask),
        hbm_in<std::int8_t>("mask", shape(q_len, kv_len)).when(mask == LiveKeys::kArray),
        in<T>("q", queries, of_q, q_block).pad(0), in<T>("k", keys, of_kv, kv_block).pad(0),
        in<T>("v", keys, of_kv, kv_block).pad(0), in<T>("dout", queries, of_q, q_block).pad(0),
        in<float>("lse", rows, of_rows, q_block).pad(0).uniform(4, 6),
        in<float>("delta", rows, of_rows, q_block).pad(0),
        in<std::int8_t>(
            "mask_blocks", shape(greater(visits.masks, 1), bq, bk), block(squeezed, bq, bk),
            [of_mask](auto, auto, auto, auto visit) { return at(of_mask[visit], 0, 0); })
            .when(visits.masks > 0),
        out<T>("dq", queries, of_q, q_block), accum<float>("acc", bq, bd));
  }

  /// What queries have once; of keys, values and masks a block whenever a visit wants another one;
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
    return {2 * (rows + walk.brought.elems) * head_dim * kBytes<T> + 2 * rows * kBytes<float> +
                walk.brought.masks * t[0] * t[1] + walk.lists() * kBytes<int>,
            rows * head_dim * kBytes<T>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Mask, class Q, class K, class V, class Dout, class Lse, class Delta,
            class Masks, class Dq, class Acc>
  TESSERA_FN void operator()(Env& env, Mask, Q q, K k, V v, Dout dout, Lse lse, Delta delta,
                             Masks mask_blocks, Dq dq, Acc acc) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    constexpr float kLog2E = 1.44269504f;
    if (env.first(3)) *acc = 0.f;                                            // (bq, bd) f32
    const auto s = load(dot(*q, transpose(*k)));                             // (bq, bk) f32
    const auto shift = load(where(*lse == kMinusInf, 0.f, *lse * -kLog2E));  // (bq, 1): sees none
    auto p = load(exp2(s * (scale * kLog2E) + shift));                       // (bq, bk)
    if (visits.masks > 0) {
      if (visits.masked[env.program_id(3)] != 0)
        p = where(cast<float>(*mask_blocks) == 0.f, 0.f, p);
    }
    const auto dp = load(dot(*dout, transpose(*v)));  // (bq, bk) f32
    p = load(p * (dp - *delta));                      // now ds
    *acc += dot(cast<T>(p), *k);                      // (bq, bd) f32
    if (env.last(3)) *dq = cast<T>(*acc * scale);     // (bq, bd) T
  }

  template <class Host>
  void prepare(Host& host, Tiles t) {
    scale = 1.f / std::sqrt(static_cast<float>(head_dim));
    visits = live_blocks(host, host_mask(host, {mask, window}, q_len, kv_len), t[0], t[1], false);
  }
};

}  // namespace tessera::kernels
