// Gradients of linear_attention by its keys, values, gates and first state, from the last chunk to
// the first.
//
//   D[t] = diag(exp(g[t + 1])) D[t + 1] + q[t]^T dout[t] / sqrt(dk),   D after the end: ds
//   dk[t] = D[t] v[t],   dv[t] = k[t] D[t],   ds0 = diag(exp(g[0])) D[0]
//   dg[t] = sum_{s >= t} (q[s] dq[s] - k[s] dk[s]) + sum over dv of s ds
//
// Yang et al. (GLA), arXiv:2312.06635, section 4.4 and appendix C; dq is that of
// kernels/linear_attention_dq.hpp, s the state at the end. Chunks, gates and rounded factors as in
// kernels/linear_attention.hpp. With A[t] the sum of g from the chunk's start, m half of A[end], D
// what comes from the chunk behind, q' = q exp(A - m) / sqrt(dk) and k' = k exp(m - A),
//
//   dk[t] = exp(A[end] - A[t]) (D v[t]) + exp(m - A[t]) sum_{s >= t} (v[t] . dout[s]) q'[s]
//   dv[t] = (k[t] exp(A[end] - A[t])) D + sum_{s >= t} (k'[t] . q'[s]) dout[s]
//   D[start] = exp(A[end]) D + sum_s (q[s] exp(A[s]) / sqrt(dk))^T dout[s]
#pragma once

#include <cmath>
#include <vector>

#include "kernels/linear_attention.hpp"
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

template <class T>
struct LinearAttentionDkv : LinearSizes {
  static constexpr KernelInfo info{
      .name = "linear_attention_dkv",
      .summary = "gradients of linear_attention by its keys, values, gates and first state",
      .math =
          "D[t] = diag(exp(g[t + 1])) D[t + 1] + q[t]^T dout[t] / sqrt(dk);  dk[t] = D[t] v[t];  "
          "dv[t] = k[t] D[t];  dg[t] = sum_{s >= t} (q[s] dq[s] - k[s] dk[s]) + sum_dv s ds;  "
          "ds0 = diag(exp(g[0])) D[0]",
      .cites = "arXiv:2312.06635"};
  static constexpr bool exchanges = true;

  static constexpr std::array cases{
      Case{"aligned", {1, 2, 192, 64, 64, 0, 0}, {64, 64, 64, 0}},
      Case{"decay, from a state", {2, 2, 128, 64, 64, 1, 1}, {64, 64, 64, 1}},
      Case{"gates", {1, 2, 128, 64, 64, 2, 0}, {64, 64, 64, 0}},
      Case{"ragged, gates, from a state", {1, 2, 100, 64, 64, 2, 1}, {64, 64, 64, 1}},
      Case{"ragged, decay", {2, 1, 41, 64, 64, 1, 0}, {64, 64, 64, 0}},
      Case{"degenerate", {1, 1, 1, 1, 1, 2, 1}, {1, 1, 1, 1}}};

  TESSERA_FN auto spec(auto bt, auto bk, auto bv, auto state) const {
    const int chunks = ceil_div(len, bt);
    auto step_block = [chunks](auto b, auto h, auto i) { return at(b, h, chunks - 1 - i, 0); };
    auto head_block = [](auto b, auto h, auto) { return at(b, h, 0, 0); };
    const auto keys = shape(batch, heads, len, dk);
    const auto values = shape(batch, heads, len, dv);
    const auto states = shape(batch, heads, dv, dk);
    const auto of_keys = block(squeezed, squeezed, bt, bk);
    const auto of_values = block(squeezed, squeezed, bt, bv);
    const auto of_state = block(squeezed, squeezed, bv, bk);
    const bool by_gates = gate == 2;
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(heads).as("h"), arbitrary(chunks).as("chunk")),
        scalars("decays", decays), in<T>("q", keys, of_keys, step_block).pad(0),
        in<T>("k", keys, of_keys, step_block).pad(0),
        in<T>("v", values, of_values, step_block).pad(0),
        in<T>("dout", values, of_values, step_block).pad(0),
        in<float>("g", keys, of_keys, step_block).pad(0).uniform(-0.5, 0).when(by_gates),
        in<T>("dq", keys, of_keys, step_block).pad(0).when(by_gates),
        in<float>("ds", states, of_state, head_block).when(state),
        in<float>("s", states, of_state, head_block).when(state).when(by_gates && stateful != 0),
        out<T>("dk", keys, of_keys, step_block), out<T>("dv", values, of_values, step_block),
        out<float>("dg", keys, of_keys, step_block).when(by_gates),
        out<float>("ds0", states, of_state, head_block).when(stateful != 0),
        accum<float>("state", bv, bk), accum<float>("acc", bt, bv), vmem<T>("behind", bv, bk),
        vmem<T>("queries", bt, bk), vmem<T>("keys", bt, bk), vmem<float>("carry", Int<1>{}, bk));
  }

  /// Everything once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t each = std::int64_t{batch} * heads;
    const std::int64_t steps = each * len;
    const std::int64_t states = stateful != 0 ? each * dk * dv * kBytes<float> : 0;
    const bool by_gates = gate == 2;
    return {steps * (2 * (dk + dv) + (by_gates ? dk : 0)) * kBytes<T> +
                (by_gates ? steps * dk * kBytes<float> + states : 0) + states +
                decays.size * kBytes<float>,
            steps * (dk + dv) * kBytes<T> + (by_gates ? steps * dk * kBytes<float> : 0) + states};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class Dout, class G, class Dq, class Ds, class S,
            class Dk, class Dv, class Dg, class Ds0, class State, class Acc, class Behind,
            class Queries, class Keys, class Carry>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, Dout dout, G g, Dq dq, Ds ds, S s, Dk dk_out,
                             Dv dv_out, Dg dg, Ds0 ds0, State state, Acc acc, Behind behind,
                             Queries queries, Keys keys, Carry carry) const {
    const auto chunk = env.num_programs(2) - 1 - env.program_id(2);
    const auto rows = lesser(len - chunk * k.rows, k.rows);
    if (env.first(2)) {
      *state = 0.f;  // (bv, bk) f32
      *carry = 0.f;  // (1, bk) f32
      if (ds.there()) {
        *state = *ds;
        if (gate == 2) *carry = col_sum(*s * *ds);
      }
    }
    auto sum = load(full<float>(env, k.rows, k.cols, 0.f));  // (bt, bk) f32: A
    if (gate == 1) sum = load(cast<float>(min(row_ids(sum) + 1, rows)) * decays[env.program_id(1)]);
    if (gate == 2) sum = load(cumsum_rows(*g));
    const auto end = load(col_sum(where_at(
        sum, [=](auto r, auto) { return r == rows - 1; }, 0.f)));  // (1, bk)
    const auto middle = load(end * 0.5f);
    const auto not_before = [](auto t, auto of) { return of >= t; };
    *behind = cast<T>(*state);                                        // (bv, bk) T
    *queries = cast<T>(cast<float>(*q) * scale * exp(sum - middle));  // (bt, bk) T
    auto p = load(dot(*v, transpose(*dout)));                         // (bt, bt) f32
    p = where_at(p, not_before, 0.f);
    const auto later = load(dot(*v, *behind));          // (bt, bk) f32
    const auto here = load(dot(cast<T>(p), *queries));  // (bt, bk) f32
    const auto by_keys = load(later * exp(end - sum) + here * exp(middle - sum));
    *dk_out = cast<T>(by_keys);
    p = load(dot(cast<T>(cast<float>(*k) * exp(middle - sum)), transpose(*queries)));
    p = where_at(p, not_before, 0.f);
    *keys = cast<T>(cast<float>(*k) * exp(end - sum));  // (bt, bk) T
    *acc = 0.f;                                         // (bt, bv) f32
    *acc += dot(*keys, transpose(*behind));
    *acc += dot(cast<T>(p), *dout);
    *dv_out = cast<T>(*acc);  // (bt, bv) T
    if (gate == 2) {
      const auto each = load(cast<float>(*q) * cast<float>(*dq) - cast<float>(*k) * by_keys);
      const auto all = load(col_sum(each));  // (1, bk)
      *dg = each + (all - cumsum_rows(each)) + *carry;
      *carry = *carry + all;
    }
    *queries = cast<T>(cast<float>(*q) * scale * exp(sum));
    *state = *state * exp(end);
    *state += dot(transpose(*dout), *queries);
    if (ds.there()) {
      if (env.last(2)) *ds0 = *state;
    }
  }
};

}  // namespace tessera::kernels
