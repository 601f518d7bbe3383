// Linear attention with gates, chunk by chunk: a state in place of the keys and values seen.
//
//   S[t] = diag(exp(g[t])) S[t - 1] + k[t]^T v[t],   o[t] = q[t] S[t] / sqrt(dk)
//
// gate 0: g = 0, Katharopoulos et al., arXiv:2006.16236; 1: a constant of each head, Lightning
// Attention, Qin et al., arXiv:2401.04658; 2: of each step and column of k (GLA), Yang et al.,
// arXiv:2312.06635, whose chunked form this is. With A[t] the sum of g from the chunk's start,
//
//   o[t] = (q[t] exp(A[t])) S[0] + sum_{s <= t} ((q[t] exp(A[t] - m)) . (k[s] exp(m - A[s]))) v[s]
//   S[end] = exp(A[end]) S[0] + sum_s (k[s] exp(A[end] - A[s]))^T v[s]
//
// where m, half of A[end], is between both: the sum of g over a chunk may be as low as -170.
// Factors of products are rounded to T, the state is kept in f32. It lies transposed, (dv, dk), in
// arrays too: what gates scale are its columns then.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/cumsum.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/min.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

/// Scalars `decays`, logarithms of what each head keeps in a step, from fast to slow as Lightning
/// Attention has them; nothing unless they are wanted.
template <class Host>
Smem<float> decays_of_heads(Host& host, bool wanted, int heads) {
  std::vector<float> made;
  for (int h = 0; wanted && h < heads; ++h)
    made.push_back(-std::exp2(-8.f * static_cast<float>(h + 1) / static_cast<float>(heads)));
  if (!wanted) return host.keep("decays", std::move(made));
  const Smem<float> decays = host.scalars("decays", std::move(made));
  if (decays.size != heads) host.fail("decays has one entry per head");
  for (int h = 0; h < heads; ++h) {
    if (!(decays[h] <= 0)) host.fail("decays are logarithms of factors of at most 1");
  }
  return decays;
}

/// Sizes of linear attention and of its gradients.
struct LinearSizes {
  int batch = 1;
  int heads = 1;
  int len = 0;
  int dk = 0;
  int dv = 0;
  int gate = 0;
  int stateful = 0;

  float scale = 0;     ///< 1 / sqrt(dk)
  Smem<float> decays;  ///< gate 1: g of each head

  static constexpr auto sizes =
      params(size("batch", &LinearSizes::batch, "sequences"),
             size("heads", &LinearSizes::heads, "heads"), size("len", &LinearSizes::len, "steps"),
             size("dk", &LinearSizes::dk, "columns of q, k, g and their gradients"),
             size("dv", &LinearSizes::dv, "columns of v, o and their gradients"),
             size("gate", &LinearSizes::gate, "0: none; 1: of heads (--input decays=); 2: input g"),
             size("stateful", &LinearSizes::stateful, "1: from a state; gradients: also to it"));
  static constexpr auto tiles =
      tile_names(tile("bt"), tile("bk", "dk"), tile("bv", "dv"), tile("state", "stateful"));

  const char* valid(Tiles t) const {
    if (t[1] != dk || t[2] != dv) return "blocks have whole rows: bk = dk, bv = dv";
    if (t[3] != stateful) return "a build begins with a state, or has none: state = stateful";
    return gate >= 0 && gate <= 2 ? nullptr : "gate is 0, 1 or 2";
  }

  template <class Host>
  void prepare(Host& host, Tiles) {
    scale = 1.f / std::sqrt(static_cast<float>(dk));
    decays = decays_of_heads(host, gate == 1, heads);
  }
};

template <class T>
struct LinearAttention : LinearSizes {
  static constexpr KernelInfo info{
      .name = "linear_attention",
      .summary = "linear attention by chunks: plain, decay of heads, gates of keys",
      .math =
          "S[t] = diag(exp(g[t])) S[t - 1] + k[t]^T v[t];  o[t] = q[t] S[t] / sqrt(dk);  s: S at "
          "the end",
      .cites = "arXiv:2006.16236, arXiv:2401.04658, arXiv:2312.06635"};
  static constexpr bool exchanges = true;

  static constexpr std::array cases{
      Case{"aligned", {1, 2, 192, 64, 64, 0, 0}, {64, 64, 64, 0}},
      Case{"decay, from a state", {2, 2, 128, 64, 64, 1, 1}, {64, 64, 64, 1}},
      Case{"gates", {1, 2, 128, 64, 64, 2, 0}, {64, 64, 64, 0}},
      Case{"ragged, gates, from a state", {1, 2, 100, 64, 64, 2, 1}, {64, 64, 64, 1}},
      Case{"ragged, decay", {2, 1, 41, 64, 64, 1, 0}, {64, 64, 64, 0}},
      Case{"degenerate", {1, 1, 1, 1, 1, 2, 1}, {1, 1, 1, 1}}};

  TESSERA_FN auto spec(auto bt, auto bk, auto bv, auto state) const {
    auto step_block = [](auto b, auto h, auto i) { return at(b, h, i, 0); };
    auto head_block = [](auto b, auto h, auto) { return at(b, h, 0, 0); };
    const auto keys = shape(batch, heads, len, dk);
    const auto values = shape(batch, heads, len, dv);
    const auto states = shape(batch, heads, dv, dk);
    const auto of_keys = block(squeezed, squeezed, bt, bk);
    const auto of_values = block(squeezed, squeezed, bt, bv);
    const auto of_state = block(squeezed, squeezed, bv, bk);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(heads).as("h"),
             arbitrary(ceil_div(len, bt)).as("chunk")),
        scalars("decays", decays), in<T>("q", keys, of_keys, step_block).pad(0),
        in<T>("k", keys, of_keys, step_block).pad(0),
        in<T>("v", values, of_values, step_block).pad(0),
        in<float>("g", keys, of_keys, step_block).pad(0).uniform(-0.5, 0).when(gate == 2),
        in<float>("s0", states, of_state, head_block).when(state),
        out<T>("o", values, of_values, step_block), out<float>("s", states, of_state, head_block),
        accum<float>("state", bv, bk), accum<float>("acc", bt, bv), vmem<T>("before", bv, bk),
        vmem<T>("keys", bt, bk));
  }

  /// Everything once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t each = std::int64_t{batch} * heads;
    const std::int64_t states = each * dk * dv * kBytes<float>;
    return {each * len * (2 * dk + dv) * kBytes<T> +
                (gate == 2 ? each * len * dk * kBytes<float> : 0) + (stateful != 0 ? states : 0) +
                decays.size * kBytes<float>,
            each * len * dv * kBytes<T> + states};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class G, class S0, class O, class S, class State,
            class Acc, class Before, class Keys>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, G g, S0 s0, O o, S s, State state, Acc acc,
                             Before before, Keys keys) const {
    const auto rows = lesser(len - env.program_id(2) * q.rows, q.rows);
    if (env.first(2)) {
      *state = 0.f;  // (bv, bk) f32
      if (s0.there()) *state = *s0;
    }
    auto sum = load(full<float>(env, q.rows, q.cols, 0.f));  // (bt, bk) f32: A
    if (gate == 1) sum = load(cast<float>(min(row_ids(sum) + 1, rows)) * decays[env.program_id(1)]);
    if (gate == 2) sum = load(cumsum_rows(*g));
    const auto end = load(col_sum(where_at(
        sum, [=](auto r, auto) { return r == rows - 1; }, 0.f)));  // (1, bk)
    const auto middle = load(end * 0.5f);
    *before = cast<T>(*state);  // (bv, bk) T
    *acc = 0.f;                 // (bt, bv) f32
    *acc += dot(cast<T>(cast<float>(*q) * scale * exp(sum)), transpose(*before));
    *keys = cast<T>(cast<float>(*k) * exp(middle - sum));  // (bt, bk) T
    auto p = load(dot(cast<T>(cast<float>(*q) * scale * exp(sum - middle)),
                      transpose(*keys)));  // (bt, bt) f32
    p = where_at(
        p, [](auto t, auto from) { return from <= t; }, 0.f);
    *acc += dot(cast<T>(p), *v);
    *o = cast<T>(*acc);  // (bt, bv) T
    *keys = cast<T>(cast<float>(*k) * exp(end - sum));
    *state = *state * exp(end);
    *state += dot(transpose(*v), *keys);
    if (env.last(2)) *s = *state;
  }
};

}  // namespace tessera::kernels
