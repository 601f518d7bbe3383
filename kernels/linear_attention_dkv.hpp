// Gradients of linear_attention by its keys, values, gates, bonus and first state, from the last
// chunk to the first.
//
//   D[t] = diag(exp(g[t + 1])) D[t + 1] + q[t]^T dout[t] / sqrt(dk),   D after the end: ds
//   dk[t] = D[t] v[t],   dv[t] = k[t] D[t],   ds0 = diag(exp(g[0])) D[0]
//   dg[t] = sum_{s >= t} (q[s] dq[s] - k[s] dk[s]) + sum over dv of s ds
//   of gate 1, on request: ddecay = sum over t and dk of dg[t], for each sequence and head
//
// With a bonus, o[t] = q[t] (S[t - 1] + diag(u) k[t]^T v[t]) / sqrt(dk), D[t] is without the term
// of step t, D[t - 1] = diag(exp(g[t])) D[t] + q[t]^T dout[t] / sqrt(dk), and with c[t] = v[t] .
// dout[t]
//
//   dk[t] = D[t] v[t] + c[t] u q[t] / sqrt(dk),   dv[t] = k[t] D[t] + (q[t] u . k[t]) dout[t] /
//   sqrt(dk) du = sum_t c[t] q[t] k[t] / sqrt(dk), for each sequence and head
//
// where dg has no terms of the bonus, nor of step t itself: what q dq has of it is taken off.
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

#include "kernels/cases.hpp"
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
struct LinearAttentionDkv : LinearSizes {
  static constexpr KernelInfo info{
      .name = "linear_attention_dkv",
      .summary = "gradients of linear_attention by its keys, values, gates, bonus and first state",
      .math =
          "D[t] = diag(exp(g[t + 1])) D[t + 1] + q[t]^T dout[t] / sqrt(dk);  dk[t] = D[t] v[t];  "
          "dv[t] = k[t] D[t];  dg[t] = sum_{s >= t} (q[s] dq[s] - k[s] dk[s]) + sum_dv s ds;  "
          "ds0 = diag(exp(g[0])) D[0]",
      .cites = "arXiv:2312.06635"};
  static constexpr bool exchanges = true;

  static constexpr auto sizes = more_sizes(
      LinearSizes::sizes,
      size("decay_grad", &LinearSizes::decay_grad, "1: of gate 1 the gradient by decays too"));
  static constexpr std::array cases{
      Case{"aligned", {1, 2, 192, 64, 64, 0, 0, 1, 0, 0}, {64, 64, 64, 0, 0}},
      Case{"decay, from a state", {2, 2, 128, 64, 64, 1, 1, 1, 0, 0}, {64, 64, 64, 1, 0}},
      Case{"gates", {1, 2, 128, 64, 64, 2, 0, 1, 0, 0}, {64, 64, 64, 0, 0}},
      Case{"ragged, gates, from a state", {1, 2, 100, 64, 64, 2, 1, 1, 0, 0}, {64, 64, 64, 1, 0}},
      Case{"ragged, decay", {2, 1, 41, 64, 64, 1, 0, 1, 0, 0}, {64, 64, 64, 0, 0}},
      Case{"lengths, gates, from states", {1, 2, 150, 64, 64, 2, 1, 4, 0, 0}, {64, 64, 64, 1, 0}},
      Case{"lengths, decay and its gradient",
           {1, 2, 200, 64, 64, 1, 1, 3, 0, 1},
           {64, 64, 64, 1, 0}},
      Case{"decay and its gradient", {2, 2, 100, 64, 64, 1, 0, 1, 0, 1}, {64, 64, 64, 0, 0}},
      Case{"RWKV-6", {2, 2, 100, 64, 64, 2, 0, 1, 1, 0}, {64, 64, 64, 0, 1}},
      Case{"lengths, bonus, from states", {1, 2, 150, 64, 64, 1, 1, 3, 1, 1}, {64, 64, 64, 1, 1}},
      Case{"degenerate", {1, 1, 1, 1, 1, 2, 1, 1, 0, 0}, {1, 1, 1, 1, 0}}};

  const char* valid(Tiles t) const {
    if (decay_grad != 0 && gate != 1) return "decay_grad is of gate 1";
    return LinearSizes::valid(t);
  }

  TESSERA_FN auto spec(auto bt, auto bk, auto bv, auto state, auto own) const {
    const int chunks = ceil_div(len, bt);
    const auto self = *this;
    const int each = sequences;
    auto step_block = [chunks](auto b, auto h, auto, auto i) {
      return at(b, h, chunks - 1 - i, 0);
    };
    auto head_block = [each](auto b, auto h, auto i, auto) {
      return at(b * each + (each - 1 - i), h, 0, 0);
    };
    auto own_block = [](auto, auto h, auto, auto) { return at(h, 0, 0); };
    const auto keys = shape(batch, heads, len, dk);
    const auto values = shape(batch, heads, len, dv);
    const auto states = shape(batch * sequences, heads, dv, dk);
    const auto of_keys = block(squeezed, squeezed, bt, bk);
    const auto of_values = block(squeezed, squeezed, bt, bv);
    const auto of_state = block(squeezed, squeezed, bv, bk);
    const bool by_gates = gate == 2;
    const bool by_sums = by_gates || decay_grad != 0;
    return tessera::spec(
        grid(
            parallel(batch).as("b"), parallel(heads).as("h"), arbitrary(sequences).as("n"),
            arbitrary([self, chunks, each, bt](
                          auto, auto, auto i) { return chunks - self.end_chunk(each - 1 - i, bt); },
                      [self, chunks, each, bt](auto, auto, auto i) {
                        return chunks - self.first_chunk(each - 1 - i, bt);
                      })
                .as("chunk")),
        scalars("decays", decays), scalars("starts", starts),
        in<T>("q", keys, of_keys, step_block).pad(0), in<T>("k", keys, of_keys, step_block).pad(0),
        in<T>("v", values, of_values, step_block).pad(0),
        in<T>("dout", values, of_values, step_block).pad(0),
        in<float>("g", keys, of_keys, step_block).pad(0).uniform(-0.5, 0).when(by_gates),
        in<T>("dq", keys, of_keys, step_block).pad(0).when(by_sums),
        in<float>("ds", states, of_state, head_block).when(state),
        in<float>("s", states, of_state, head_block).when(state).when(by_sums && stateful != 0),
        in<float>("u", shape(heads, 1, dk), block(squeezed, Int<1>{}, bk), own_block)
            .pad(0)
            .when(own),
        out<T>("dk", keys, of_keys, step_block), out<T>("dv", values, of_values, step_block),
        out<float>("dg", keys, of_keys, step_block).when(by_gates),
        out<float>("ddecay", shape(batch * sequences, heads, 1, 1),
                   block(squeezed, squeezed, Int<1>{}, Int<1>{}), head_block)
            .when(decay_grad != 0),
        out<float>("du", shape(batch * sequences, heads, 1, dk),
                   block(squeezed, squeezed, Int<1>{}, bk), head_block)
            .when(bonus != 0),
        out<float>("ds0", states, of_state, head_block).when(stateful != 0),
        accum<float>("state", bv, bk), accum<float>("acc", bt, bv), vmem<T>("behind", bv, bk),
        vmem<T>("queries", bt, bk), vmem<T>("keys", bt, bk), vmem<float>("carry", Int<1>{}, bk),
        vmem<float>("decay_sum", Int<1>{}, Int<1>{}), vmem<float>("u_sum", Int<1>{}, bk));
  }

  /// Everything once.
  Bytes hbm_bytes(Tiles, Target target) const {
    const std::int64_t each = std::int64_t{batch} * heads;
    const std::int64_t steps = each * len;
    const std::int64_t states = stateful != 0 ? sequences * each * dk * dv * kBytes<float> : 0;
    const bool by_gates = gate == 2;
    const bool by_sums = by_gates || decay_grad != 0;
    return {steps * (2 * (dk + dv) + (by_sums ? dk : 0)) * kBytes<T> +
                (by_gates ? steps * dk * kBytes<float> : 0) + (by_sums ? 2 : 1) * states +
                bonus_bytes(target) + decays.size * kBytes<float> + starts.size * kBytes<int>,
            steps * (dk + dv) * kBytes<T> + (by_gates ? steps * dk * kBytes<float> : 0) + states +
                (decay_grad != 0 ? sequences * each * kBytes<float> : 0) +
                (bonus != 0 ? sequences * each * dk * kBytes<float> : 0)};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class Dout, class G, class Dq, class Ds, class S,
            class U, class Dk, class Dv, class Dg, class Ddecay, class Du, class Ds0, class State,
            class Acc, class Behind, class Queries, class Keys, class Carry, class DecaySum,
            class USum>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, Dout dout, G g, Dq dq, Ds ds, S s, U u,
                             Dk dk_out, Dv dv_out, Dg dg, Ddecay ddecay, Du du, Ds0 ds0,
                             State state, Acc acc, Behind behind, Queries queries, Keys keys,
                             Carry carry, DecaySum decay_sum, USum u_sum) const {
    const int chunks = ceil_div(len, k.rows);
    const auto rows =
        rows_of(sequences - 1 - env.program_id(2), chunks - 1 - env.program_id(3), k.rows);
    const auto last = rows.end - 1;
    const bool by_sums = gate == 2 || decay_grad != 0;
    if (env.first(3)) {
      *state = 0.f;                           // (bv, bk) f32
      *carry = 0.f;                           // (1, bk) f32
      if (decay_grad != 0) *decay_sum = 0.f;  // (1, 1) f32
      if (u.there()) *u_sum = 0.f;            // (1, bk) f32
      if (ds.there()) {
        *state = *ds;
        if (by_sums) *carry = col_sum(*s * *ds);
      }
    }
    const auto sum = sums_of_gates(env, k, g, rows, env.program_id(1));  // (bt, bk) f32: A
    const auto end = load(col_sum(where_at(
        sum, [=](auto r, auto) { return r == last; }, 0.f)));  // (1, bk)
    const auto middle = load(end * 0.5f);
    auto asked = sum;  // what queries see of it
    if (u.there()) asked = sums_before(sum, g, env.program_id(1));
    const auto begin = rows.begin;
    const auto end_row = rows.end;
    const auto ours = [=](auto r, auto) { return begin <= r && r < end_row; };
    const auto seen = [&](const auto& scores) {
      auto left = scores;
      if (u.there()) {
        left = where_at(
            scores, [](auto t, auto of) { return of > t; }, 0.f);
      } else {
        left = where_at(
            scores, [](auto t, auto of) { return of >= t; }, 0.f);
      }
      return left;
    };
    *behind = cast<T>(*state);                                          // (bv, bk) T
    *queries = cast<T>(cast<float>(*q) * scale * exp(asked - middle));  // (bt, bk) T
    clear_others(queries, rows);
    auto p = load(dot(*v, transpose(*dout)));  // (bt, bt) f32
    p = seen(p);
    const auto later = load(dot(*v, *behind));          // (bt, bk) f32
    const auto here = load(dot(cast<T>(p), *queries));  // (bt, bk) f32
    const auto by_keys = load(later * exp(end - sum) + here * exp(middle - sum));
    const auto own = [&] { return load(row_sum(cast<float>(*v) * cast<float>(*dout)) * scale); };
    if (u.there()) {
      const auto by_queries = load(own() * cast<float>(*q));  // (bt, bk)
      store_rows(dk_out, load(cast<T>(by_keys + by_queries * *u)), rows);
      auto by_bonus = load(by_queries * cast<float>(*k));
      if (sequences > 1) by_bonus = where_at(by_bonus, ours, 0.f);
      *u_sum = *u_sum + col_sum(by_bonus);
    } else {
      store_rows(dk_out, load(cast<T>(by_keys)), rows);
    }
    p = load(dot(cast<T>(cast<float>(*k) * exp(middle - sum)), transpose(*queries)));
    p = seen(p);
    *keys = cast<T>(cast<float>(*k) * exp(end - sum));  // (bt, bk) T
    *acc = 0.f;                                         // (bt, bv) f32
    *acc += dot(*keys, transpose(*behind));
    *acc += dot(cast<T>(p), *dout);
    if (u.there()) {
      const auto seen_now = load(row_sum(cast<float>(*q) * scale * *u * cast<float>(*k)));
      *acc = *acc + seen_now * cast<float>(*dout);
    }
    store_rows(dv_out, load(cast<T>(*acc)), rows);  // (bt, bv) T
    if (by_sums) {
      auto by_queries = load(cast<float>(*q) * cast<float>(*dq));
      if (u.there()) by_queries = load(by_queries - own() * cast<float>(*q) * *u * cast<float>(*k));
      auto each = load(by_queries - cast<float>(*k) * by_keys);
      if (sequences > 1) each = where_at(each, ours, 0.f);
      const auto all = load(col_sum(each));                             // (1, bk)
      auto of_gates = load(each + (all - cumsum_rows(each)) + *carry);  // (bt, bk)
      if (u.there()) of_gates = load(of_gates - by_queries);
      if (gate == 2) store_rows(dg, of_gates, rows);
      if (decay_grad != 0)
        *decay_sum = *decay_sum + col_sum(row_sum(where_at(of_gates, ours, 0.f)));
      *carry = *carry + all;
    }
    *queries = cast<T>(cast<float>(*q) * scale * exp(asked));
    clear_others(queries, rows);
    *state = *state * exp(end);
    *state += dot(transpose(*dout), *queries);
    if (env.last(3)) {
      if (decay_grad != 0) *ddecay = *decay_sum;
      if (u.there()) *du = *u_sum;
      if (ds.there()) *ds0 = *state;
    }
  }
};

}  // namespace tessera::kernels
