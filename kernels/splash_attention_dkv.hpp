// Gradients of splash_attention by its keys and values, over the live blocks of a mask, listed for
// every block of keys.
//
//   dk[j] = scale sum_i ds[i,j] q[i],   dv[j] = sum_i p[i,j] dout[i]
//
// p and ds are those of kernels/splash_attention_dq.hpp (Dao, arXiv:2307.08691, algorithm 2), made
// transposed, masks too: keys are the rows, so that both are left factors as they are computed. The
// query heads of a key head go by one after the other.
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
struct SplashAttentionDkv {
  static constexpr KernelInfo info{
      .name = "splash_attention_dkv",
      .summary = "gradients of splash_attention by its keys and values",
      .math =
          "dk[j] = scale sum_i ds[i,j] q[i],  dv[j] = sum_i p[i,j] dout[i],  p = mask ? exp(s - "
          "lse) : 0,  ds = p (dout v^T - delta)",
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
  Visits visits;    ///< of blocks of keys

  using Self = SplashAttentionDkv;
  static constexpr auto sizes = params(
      size("batch", &Self::batch, "sequences"), size("heads", &Self::heads, "query heads"),
      size("kv_heads", &Self::kv_heads, "key and value heads; divides heads"),
      size("q_len", &Self::q_len, "queries"), size("kv_len", &Self::kv_len, "keys"),
      size("head_dim", &Self::head_dim, "columns of q, k, v and their gradients"),
      size(
          "mask", &Self::mask,
          "0: full; 1: causal; 2: local; 3: causal local; 4: chunks, and a first one that all see; "
          "5: an array (--input mask=)"),
      size("window", &Self::window, "of masks 2 to 4: keys on each side, or of a chunk"));
  static constexpr auto tiles = tile_names(tile("bk"), tile("bq"), tile("bd", "head_dim"));
  static constexpr std::array cases{
      Case{"aligned, causal", {1, 2, 2, 256, 256, 64, 1, 1}, {32, 128, 64}},
      Case{"full", {1, 1, 1, 128, 128, 64, 0, 1}, {32, 128, 64}},
      Case{"ragged, local, grouped queries", {2, 4, 2, 150, 170, 64, 2, 30}, {32, 128, 64}},
      Case{"chunks", {1, 2, 1, 256, 256, 64, 4, 64}, {32, 128, 64}},
      Case{"array", {1, 2, 2, 200, 256, 64, 5, 1}, {32, 128, 64}},
      Case{"degenerate", {1, 1, 1, 1, 1, 1, 3, 1}, {1, 1, 1}}};

  const char* valid(Tiles t) const {
    if (t[2] < head_dim) return "bd must hold a whole row: bd >= head_dim";
    if (mask < LiveKeys::kFull || mask > LiveKeys::kArray) return "mask is 0 to 5";
    if (window < 1) return "window is 1 or more";
    return heads % kv_heads == 0 ? nullptr : "kv_heads must divide heads";
  }

  TESSERA_FN auto spec(auto bk, auto bq, auto bd) const {
    const auto start = visits.start;
    const auto query_block = visits.block;
    const auto of_mask = visits.mask;
    const int group = heads / kv_heads;
    auto kv_block = [](auto b, auto h, auto kv, auto, auto) { return at(b, h, kv, 0); };
    auto q_block = [group, query_block](auto b, auto h, auto, auto g, auto visit) {
      return at(b, h * group + g, query_block[visit], 0);
    };
    auto row_block = [group, query_block](auto b, auto h, auto, auto g, auto visit) {
      return at(b, h * group + g, 0, query_block[visit]);
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
             arbitrary([start](auto, auto, auto kv, auto) { return start[kv]; },
                       [start](auto, auto, auto kv, auto) { return start[kv + 1]; })
                 .as("visit")),
        scalars("visit_start", visits.start), scalars("visit_block", visits.block),
        scalars("visit_masked", visits.masked), scalars("visit_mask", visits.mask),
        hbm_in<std::int8_t>("mask", shape(q_len, kv_len)).when(mask == LiveKeys::kArray),
        in<T>("q", queries, of_q, q_block).pad(0), in<T>("k", keys, of_kv, kv_block).pad(0),
        in<T>("v", keys, of_kv, kv_block).pad(0), in<T>("dout", queries, of_q, q_block).pad(0),
        in<float>("lse", rows, of_rows, row_block).pad(0).uniform(4, 6),
        in<float>("delta", rows, of_rows, row_block).pad(0),
        in<std::int8_t>(
            "mask_blocks", shape(greater(visits.masks, 1), bk, bq), block(squeezed, bk, bq),
            [of_mask](auto, auto, auto, auto, auto visit) { return at(of_mask[visit], 0, 0); })
            .when(visits.masks > 0),
        out<T>("dk", keys, of_kv, kv_block), out<T>("dv", keys, of_kv, kv_block),
        accum<float>("dk_sum", bk, bd), accum<float>("dv_sum", bk, bd));
  }

  /// k, v, dk and dv once; of masks and what queries have a block whenever a visit wants another
  /// one; visits once. `mask` itself is the host's.
  Bytes hbm_bytes(Tiles t, Target target) const {
    VisitWalk walk{visits, q_len, t[1], {}};
    const int group = heads / kv_heads;
    for (int head = 0; head < batch * kv_heads; ++head) {
      for (int kv = 0; kv < ceil_div(kv_len, t[0]); ++kv) {
        if (!target.keeps_blocks) walk.forget();
        for (int g = 0; g < group; ++g) walk.row(kv, head * group + g);
      }
    }
    const std::int64_t keys = 2 * std::int64_t{batch} * kv_heads * kv_len * head_dim * kBytes<T>;
    return {keys +
                2 * walk.brought.elems * (head_dim * kBytes<T> + kBytes<float>)+walk.brought.masks *
                    t[0] * t[1] +
                walk.lists() * kBytes<int>,
            keys};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Mask, class Q, class K, class V, class Dout, class Lse, class Delta,
            class Masks, class Dk, class Dv, class DkSum, class DvSum>
  TESSERA_FN void operator()(Env& env, Mask, Q q, K k, V v, Dout dout, Lse lse, Delta delta,
                             Masks mask_blocks, Dk dk, Dv dv, DkSum dk_sum, DvSum dv_sum) const {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    constexpr float kLog2E = 1.44269504f;
    if (env.first(3) && env.first(4)) {
      *dk_sum = 0.f;  // (bk, bd) f32
      *dv_sum = 0.f;  // (bk, bd) f32
    }
    const auto s = load(dot(*k, transpose(*q)));                             // (bk, bq) f32
    const auto shift = load(where(*lse == kMinusInf, 0.f, *lse * -kLog2E));  // (1, bq): sees none
    auto p = load(exp2(s * (scale * kLog2E) + shift));                       // (bk, bq)
    if (visits.masks > 0) {
      if (visits.masked[env.program_id(4)] != 0)
        p = where(cast<float>(*mask_blocks) == 0.f, 0.f, p);
    }
    *dv_sum += dot(cast<T>(p), *dout);                // (bk, bd) f32
    const auto dp = load(dot(*v, transpose(*dout)));  // (bk, bq) f32
    p = load(p * (dp - *delta));                      // now ds
    *dk_sum += dot(cast<T>(p), *q);                   // (bk, bd) f32
    if (env.last(3) && env.last(4)) {
      *dk = cast<T>(*dk_sum * scale);  // (bk, bd) T
      *dv = cast<T>(*dv_sum);          // (bk, bd) T
    }
  }

  template <class Host>
  void prepare(Host& host, Tiles t) {
    scale = 1.f / std::sqrt(static_cast<float>(head_dim));
    visits = live_blocks(host, host_mask(host, {mask, window}, q_len, kv_len), t[0], t[1], true);
  }
};

}  // namespace tessera::kernels
