// Gradient of linear_attention by its queries, from chunk to chunk as the forward pass goes.
//
//   dq[t] = S[t] dout[t] / sqrt(dk),   S[t] = diag(exp(g[t])) S[t - 1] + k[t]^T v[t]
//
// Yang et al. (GLA), arXiv:2312.06635, section 4.4: chunks, gates and rounded factors as in
// kernels/linear_attention.hpp. With A[t] the sum of g from the chunk's start, m half of A[end],
//
//   sqrt(dk) dq[t] = exp(A[t]) (S[0] dout[t])
//                    + exp(A[t] - m) sum_{s <= t} (dout[t] . v[s]) (k[s] exp(m - A[s]))
#pragma once

#include "kernels/linear_sizes.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/cumsum.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct LinearAttentionDq : LinearSizes {
  static constexpr KernelInfo info{
      .name = "linear_attention_dq",
      .summary = "gradient of linear_attention by its queries",
      .math = "dq[t] = S[t] dout[t] / sqrt(dk),  S[t] = diag(exp(g[t])) S[t - 1] + k[t]^T v[t]",
      .cites = "arXiv:2312.06635"};
  static constexpr bool exchanges = true;

  static constexpr std::array cases{
      Case{"aligned", {1, 2, 192, 64, 64, 0, 0, 1, 0}, {64, 64, 64, 0, 0}},
      Case{"decay, from a state", {2, 2, 128, 64, 64, 1, 1, 1, 0}, {64, 64, 64, 1, 0}},
      Case{"ragged, gates, from a state", {1, 2, 100, 64, 64, 2, 1, 1, 0}, {64, 64, 64, 1, 0}},
      Case{"ragged, decay", {2, 1, 41, 64, 64, 1, 0, 1, 0}, {64, 64, 64, 0, 0}},
      Case{"lengths, gates, from states", {1, 2, 150, 64, 64, 2, 1, 4, 0}, {64, 64, 64, 1, 0}},
      Case{"lengths, decay", {1, 2, 200, 64, 64, 1, 0, 3, 0}, {64, 64, 64, 0, 0}},
      Case{"RWKV-6", {2, 2, 100, 64, 64, 2, 0, 1, 1}, {64, 64, 64, 0, 1}},
      Case{"lengths, bonus, from states", {1, 2, 150, 64, 64, 1, 1, 3, 1}, {64, 64, 64, 1, 1}},
      Case{"degenerate", {1, 1, 1, 1, 1, 2, 1, 1, 0}, {1, 1, 1, 1, 0}}};

  TESSERA_FN auto spec(auto bt, auto bk, auto bv, auto state, auto own) const {
    const auto self = *this;
    const int each = sequences;
    auto step_block = [](auto b, auto h, auto, auto i) { return at(b, h, i, 0); };
    auto head_block = [each](auto b, auto h, auto n, auto) { return at(b * each + n, h, 0, 0); };
    auto own_block = [](auto, auto h, auto, auto) { return at(h, 0, 0); };
    const auto keys = shape(batch, heads, len, dk);
    const auto values = shape(batch, heads, len, dv);
    const auto states = shape(batch * sequences, heads, dv, dk);
    const auto of_keys = block(squeezed, squeezed, bt, bk);
    const auto of_values = block(squeezed, squeezed, bt, bv);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(heads).as("h"), arbitrary(sequences).as("n"),
             arbitrary([self, bt](auto, auto, auto n) { return self.first_chunk(n, bt); },
                       [self, bt](auto, auto, auto n) { return self.end_chunk(n, bt); })
                 .as("chunk")),
        scalars("decays", decays), scalars("starts", starts),
        in<T>("k", keys, of_keys, step_block).pad(0),
        in<T>("v", values, of_values, step_block).pad(0),
        in<T>("dout", values, of_values, step_block).pad(0),
        in<float>("g", keys, of_keys, step_block).pad(0).uniform(-0.5, 0).when(gate == 2),
        in<float>("s0", states, block(squeezed, squeezed, bv, bk), head_block).when(state),
        in<float>("u", shape(heads, 1, dk), block(squeezed, Int<1>{}, bk), own_block)
            .pad(0)
            .when(own),
        out<T>("dq", keys, of_keys, step_block), accum<float>("state", bv, bk),
        vmem<T>("before", bv, bk), vmem<T>("keys", bt, bk));
  }

  /// Everything once.
  Bytes hbm_bytes(Tiles, Target target) const {
    const std::int64_t each = std::int64_t{batch} * heads;
    return {each * len * (dk + 2 * dv) * kBytes<T> +
                (gate == 2 ? each * len * dk * kBytes<float> : 0) +
                (stateful != 0 ? sequences * each * dk * dv * kBytes<float> : 0) +
                bonus_bytes(target) + decays.size * kBytes<float> + starts.size * kBytes<int>,
            each * len * dk * kBytes<T>};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class K, class V, class Dout, class G, class S0, class U, class Dq,
            class State, class Before, class Keys>
  TESSERA_FN void operator()(Env& env, K k, V v, Dout dout, G g, S0 s0, U u, Dq dq, State state,
                             Before before, Keys keys) const {
    const auto rows = rows_of(env.program_id(2), env.program_id(3), k.rows);
    const auto last = rows.end - 1;
    if (env.first(3)) {
      *state = 0.f;  // (bv, bk) f32
      if (s0.there()) *state = *s0;
    }
    const auto sum = sums_of_gates(env, k, g, rows, env.program_id(1));  // (bt, bk) f32: A
    const auto end = load(col_sum(where_at(
        sum, [=](auto r, auto) { return r == last; }, 0.f)));  // (1, bk)
    const auto middle = load(end * 0.5f);
    auto asked = sum;  // what queries see of it
    if (u.there()) asked = sums_before(sum, g, env.program_id(1));
    *before = cast<T>(*state);                             // (bv, bk) T
    *keys = cast<T>(cast<float>(*k) * exp(middle - sum));  // (bt, bk) T
    clear_others(keys, rows);
    auto p = load(dot(*dout, transpose(*v)));  // (bt, bt) f32
    if (u.there()) {
      p = where_at(
          p, [](auto t, auto from) { return from < t; }, 0.f);
    } else {
      p = where_at(
          p, [](auto t, auto from) { return from <= t; }, 0.f);
    }
    const auto earlier = load(dot(*dout, *before));  // (bt, bk) f32
    const auto here = load(dot(cast<T>(p), *keys));  // (bt, bk) f32
    auto by_queries = load(earlier * exp(asked) + here * exp(asked - middle));
    if (u.there()) {
      const auto own = load(row_sum(cast<float>(*v) * cast<float>(*dout)));  // (bt, 1)
      by_queries = load(by_queries + own * *u * cast<float>(*k));
    }
    store_rows(dq, load(cast<T>(by_queries * scale)), rows);
    *keys = cast<T>(cast<float>(*k) * exp(end - sum));
    clear_others(keys, rows);
    *state = *state * exp(end);
    *state += dot(transpose(*v), *keys);
  }
};

}  // namespace tessera::kernels
