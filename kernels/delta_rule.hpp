// The delta rule with gates, chunk by chunk: a state whose entries are corrected, not only added
// to.
//
//   S[t] = diag(exp(g[t])) S[t - 1] + w[t]^T u[t] + y[t]^T v[t],   o[t] = q[t] S[t] / sqrt(dk)
//   rule 0:  u[t] = beta[t] (v[t] - k[t] diag(exp(g[t])) S[t - 1]),   w = k, y = 0
//   rule 1:  u[t] = b[t] S[t - 1],   w = a, y = k (RWKV-7);   rule 2:  as 1 of -b and a b
//
// gate 0: g = 0, Yang et al. (DeltaNet), arXiv:2406.06484; 1: of each step, Yang et al. (Gated
// DeltaNet), arXiv:2412.06464; 2: of each step and column of k, Kimi Team (KDA), arXiv:2510.26692,
// and Peng et al. (RWKV-7), arXiv:2503.14456, rule 2 in its own parameters. With A[t] the sum of g
// from the chunk's start and r what reads, -beta k at A[t] or b at A[t - 1], a chunk's u solve
//
//   u[t] - sum_{s < t} (r[t] exp(A[t] - A[s]) . w[s]) u[s] = beta[t] v[t] + (r[t] exp(A[t])) S[0] +
//   sum_{s < t} (r[t] exp(A[t] - A[s]) . y[s]) v[s]
//
// row by row, from the first: forward substitution is as accurate as the rule step by step, which
// products of powers of the matrix are not. Exponents are balanced as linear_attention's. Factors
// of products are rounded to T but for the solution's, which are f32 as the state, (dv, dk), is.
#pragma once

#include <cmath>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/cumsum.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct DeltaRule {
  static constexpr KernelInfo info{
      .name = "delta_rule",
      .summary = "delta rule by chunks: plain, gates of steps or keys, RWKV-7",
      .math =
          "S[t] = diag(exp(g[t])) S[t - 1] + k[t]^T u[t],  u[t] = beta[t] (v[t] - k[t] "
          "diag(exp(g[t])) S[t - 1]);  o[t] = q[t] S[t] / sqrt(dk);  s: S at the end",
      .cites = "arXiv:2406.06484, arXiv:2412.06464, arXiv:2510.26692, arXiv:2503.14456"};
  static constexpr bool exchanges = true;

  int batch = 1;
  int heads = 1;
  int len = 0;
  int dk = 0;
  int dv = 0;
  int rule = 0;
  int gate = 0;
  int stateful = 0;

  float scale = 0;  ///< 1 / sqrt(dk)
  int chunk = 0;    ///< bt

  static constexpr auto sizes = params(
      size("batch", &DeltaRule::batch, "sequences"), size("heads", &DeltaRule::heads, "heads"),
      size("len", &DeltaRule::len, "steps"), size("dk", &DeltaRule::dk, "columns of q, k, a, b, g"),
      size("dv", &DeltaRule::dv, "columns of v and o"),
      size("rule", &DeltaRule::rule, "0: delta; 1: inputs a, b; 2: of b and a factor a of each"),
      size("gate", &DeltaRule::gate, "0: none; 1: of steps, input decay; 2: of keys, input g"),
      size("stateful", &DeltaRule::stateful, "1: from a state, input s0"));
  static constexpr auto tiles = tile_names(tile("bt"), tile("bk", "dk"), tile("bv", "dv"));
  static constexpr std::array cases{
      Case{"aligned, gates of keys", {1, 2, 128, 64, 64, 0, 2, 1}, {64, 64, 64}},
      Case{"ragged, gates of steps", {1, 2, 100, 64, 64, 0, 1, 0}, {64, 64, 64}},
      Case{"ragged, no gates, from a state", {2, 1, 41, 64, 64, 0, 0, 1}, {64, 64, 64}},
      Case{"RWKV-7, from a state", {1, 1, 90, 64, 64, 1, 2, 1}, {64, 64, 64}},
      Case{"RWKV-7 in its parameters", {1, 1, 70, 64, 64, 2, 2, 0}, {64, 64, 64}},
      Case{"degenerate", {1, 1, 1, 1, 1, 0, 2, 1}, {1, 1, 1}}};

  const char* valid(Tiles t) const {
    if (t[1] != dk || t[2] != dv) return "blocks have whole rows: bk = dk, bv = dv";
    if (rule < 0 || rule > 2) return "rule is 0, 1 or 2";
    return gate >= 0 && gate <= 2 ? nullptr : "gate is 0, 1 or 2";
  }

  /// Made-up keys have lengths of about 1: a step's correction is of what was there.
  TESSERA_FN auto spec(auto bt, auto bk, auto bv) const {
    auto step_block = [](auto b, auto h, auto i) { return at(b, h, i, 0); };
    auto head_block = [](auto b, auto h, auto) { return at(b, h, 0, 0); };
    const auto keys = shape(batch, heads, len, dk);
    const auto values = shape(batch, heads, len, dv);
    const auto steps = shape(batch, heads, len, 1);
    const auto states = shape(batch, heads, dv, dk);
    const auto of_keys = block(squeezed, squeezed, bt, bk);
    const auto of_values = block(squeezed, squeezed, bt, bv);
    const auto of_steps = block(squeezed, squeezed, bt, Int<1>{});
    const auto of_state = block(squeezed, squeezed, bv, bk);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(heads).as("h"),
             arbitrary(ceil_div(len, bt)).as("chunk")),
        in<T>("q", keys, of_keys, step_block).pad(0),
        in<T>("k", keys, of_keys, step_block).pad(0).uniform(-0.2, 0.2),
        in<T>("v", values, of_values, step_block).pad(0),
        in<float>("beta", steps, of_steps, step_block).pad(0).uniform(0, 1).when(rule == 0),
        in<float>("decay", steps, of_steps, step_block).pad(0).uniform(-0.5, 0).when(gate == 1),
        in<float>("g", keys, of_keys, step_block).pad(0).uniform(-0.5, 0).when(gate == 2),
        in<T>("a", keys, of_keys, step_block).pad(0).uniform(-0.2, 0.2).when(rule != 0),
        in<T>("b", keys, of_keys, step_block).pad(0).uniform(-0.2, 0.2).when(rule != 0),
        in<float>("s0", states, of_state, head_block).when(stateful != 0),
        out<T>("o", values, of_values, step_block), out<float>("s", states, of_state, head_block),
        accum<float>("state", bv, bk), accum<float>("acc", bt, bv), vmem<T>("before", bv, bk),
        vmem<T>("reads", bt, bk), vmem<T>("keys", bt, bk), vmem<float>("lower", bt, bt),
        vmem<float>("u", bt, bv), vmem<T>("written", bt, bv));
  }

  /// Everything once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t each = std::int64_t{batch} * heads;
    const std::int64_t states = each * dk * dv * kBytes<float>;
    const std::int64_t of_step = (rule == 0 ? 1 : 0) + (gate == 1 ? 1 : 0) + (gate == 2 ? dk : 0);
    return {each * len *
                ((2 * dk + dv + (rule == 0 ? 0 : 2 * dk)) * kBytes<T> +
                 of_step * kBytes<float>)+(stateful != 0 ? states : 0),
            each * len * dv * kBytes<T> + states};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class Beta, class Decay, class G, class A,
            class B, class S0, class O, class S, class State, class Acc, class Before, class Reads,
            class Keys, class Lower, class U, class Written>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, Beta beta, Decay decay, G g, A a, B b, S0 s0,
                             O o, S s, State state, Acc acc, Before before, Reads reads, Keys keys,
                             Lower lower, U u, Written written) const {
    if (env.first(2)) {
      *state = 0.f;  // (bv, bk) f32
      if (stateful != 0) *state = *s0;
    }
    auto sum = load(full<float>(env, q.rows, q.cols, 0.f));  // (bt, bk) f32: A
    if (gate == 1) sum = load(sum + cumsum_rows(*decay));
    if (gate == 2) sum = load(cumsum_rows(*g));
    const auto middle = load(col_sum(where_at(
                                 sum, [=](auto r, auto) { return r == q.rows - 1; }, 0.f)) *
                             0.5f);  // (1, bk)
    sum = load(sum - middle);
    *state = *state * exp(middle);
    *before = cast<T>(*state);  // (bv, bk) T: S[0] where exponents are 0
    if (rule == 0) {
      *reads = cast<T>(cast<float>(*k) * (*beta * -1.f) * exp(sum));  // (bt, bk) T
      *u = cast<float>(*v) * *beta;                                   // (bt, bv) f32
    } else {
      const float sign = rule == 1 ? 1.f : -1.f;
      auto earlier = sum;
      if (gate == 1) earlier = load(sum - *decay);
      if (gate == 2) earlier = load(sum - *g);
      *reads = cast<T>(cast<float>(*b) * sign * exp(earlier));
      *u = 0.f;
    }
    *keys = cast<T>(cast<float>(*k) * exp(sum * -1.f));                      // (bt, bk) T
    const auto queries = load(cast<T>(cast<float>(*q) * scale * exp(sum)));  // (bt, bk) T
    *u += dot(*reads, transpose(*before));
    *acc = 0.f;  // (bt, bv) f32
    *acc += dot(queries, transpose(*before));
    const auto before_it = [](auto t, auto of) { return of < t; };
    const auto up_to_it = [](auto t, auto of) { return of <= t; };
    if (rule != 0) {                                 // what k and v write, whatever was there
      auto p = load(dot(*reads, transpose(*keys)));  // (bt, bt) f32
      *u += dot(cast<T>(where_at(p, before_it, 0.f)), *v);
      p = load(dot(queries, transpose(*keys)));
      *acc += dot(cast<T>(where_at(p, up_to_it, 0.f)), *v);
      *state += dot(transpose(*v), *keys);
      if (rule == 1) *keys = cast<T>(cast<float>(*a) * exp(sum * -1.f));
      if (rule == 2) *keys = cast<T>(cast<float>(*a) * cast<float>(*b) * exp(sum * -1.f));
    }
    auto p = load(dot(*reads, transpose(*keys)));  // (bt, bt) f32
    *lower = where_at(p, before_it, 0.f);
    env.loop(1, q.rows, [&](auto t) { *u.row(t) += dot(*lower.row(t), *u); });
    *written = cast<T>(*u);  // (bt, bv) T
    p = load(dot(queries, transpose(*keys)));
    *acc += dot(cast<T>(where_at(p, up_to_it, 0.f)), *written);
    *o = cast<T>(*acc);  // (bt, bv) T
    *state += dot(transpose(*written), *keys);
    *state = *state * exp(middle);
    if (env.last(2)) *s = *state;
  }

  template <class Host>
  void prepare(Host&, Tiles t) {
    scale = 1.f / std::sqrt(static_cast<float>(dk));
    chunk = t[0];
  }
};

}  // namespace tessera::kernels
