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
// arrays too: what gates scale are its columns then. Several sequences of any lengths may lie one
// after the other: each goes over the chunks that it has steps of, from a state to a state of its
// own, and a chunk that two share is brought once. Columns of v, which a state has rows of, may be
// cut into blocks: cells of their own, which make the same scores.
//
// RWKV-6, Peng et al., arXiv:2404.05892: a step's own term is weighed by a bonus u of each head,
// by no gate: o[t] = q[t] (S[t - 1] + diag(u) k[t]^T v[t]) / sqrt(dk). A query sees A of the step
// before it then, and the keys before its own.
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
struct LinearAttention : LinearSizes {
  static constexpr KernelInfo info{
      .name = "linear_attention",
      .summary = "linear attention by chunks: plain, decay of heads, gates of keys, RWKV-6",
      .math =
          "S[t] = diag(exp(g[t])) S[t - 1] + k[t]^T v[t];  o[t] = q[t] S[t] / sqrt(dk);  s: S at "
          "the end",
      .cites = "arXiv:2006.16236, arXiv:2401.04658, arXiv:2312.06635, arXiv:2404.05892"};
  static constexpr bool exchanges = true;

  static constexpr std::array cases{
      Case{"aligned", {1, 2, 192, 64, 64, 0, 0, 1, 0}, {64, 64, 64, 0, 0}},
      Case{"decay, from a state", {2, 2, 128, 64, 64, 1, 1, 1, 0}, {64, 64, 64, 1, 0}},
      Case{"gates", {1, 2, 128, 64, 64, 2, 0, 1, 0}, {64, 64, 64, 0, 0}},
      Case{"ragged, gates, from a state", {1, 2, 100, 64, 64, 2, 1, 1, 0}, {64, 64, 64, 1, 0}},
      Case{"ragged, decay", {2, 1, 41, 64, 64, 1, 0, 1, 0}, {64, 64, 64, 0, 0}},
      Case{"lengths, gates, from states", {1, 2, 150, 64, 64, 2, 1, 4, 0}, {64, 64, 64, 1, 0}},
      Case{"lengths, decay", {1, 2, 200, 64, 64, 1, 0, 3, 0}, {64, 64, 64, 0, 0}},
      Case{"RWKV-6", {2, 2, 100, 64, 64, 2, 0, 1, 1}, {64, 64, 64, 0, 1}},
      Case{"lengths, bonus, from states", {1, 2, 150, 64, 64, 1, 1, 3, 1}, {64, 64, 64, 1, 1}},
      Case{"blocks of values, gates", {2, 1, 20, 64, 256, 2, 1, 1, 0}, {8, 64, 128, 1, 0}},
      Case{"blocks of values, one chunk", {1, 2, 8, 64, 256, 1, 0, 1, 1}, {8, 64, 128, 0, 1}},
      Case{"degenerate", {1, 1, 1, 1, 1, 2, 1, 1, 0}, {1, 1, 1, 1, 0}}};

  const char* valid(Tiles t) const {
    if (t[1] != dk) return "blocks have whole rows of keys: bk = dk";
    return dv % t[2] != 0 ? "bv divides dv" : fault(t);
  }

  TESSERA_FN auto spec(auto bt, auto bk, auto bv, auto state, auto own) const {
    const auto self = *this;
    const int each = sequences;
    auto key_block = [](auto b, auto h, auto, auto, auto i) { return at(b, h, i, 0); };
    auto value_block = [](auto b, auto h, auto j, auto, auto i) { return at(b, h, i, j); };
    auto state_block = [each](auto b, auto h, auto j, auto n, auto) {
      return at(b * each + n, h, j, 0);
    };
    auto own_block = [](auto, auto h, auto, auto, auto) { return at(h, 0, 0); };
    const auto keys = shape(batch, heads, len, dk);
    const auto values = shape(batch, heads, len, dv);
    const auto states = shape(batch * sequences, heads, dv, dk);
    const auto of_keys = block(squeezed, squeezed, bt, bk);
    const auto of_values = block(squeezed, squeezed, bt, bv);
    const auto of_state = block(squeezed, squeezed, bv, bk);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(heads).as("h"), parallel(ceil_div(dv, bv)).as("j"),
             arbitrary(sequences).as("n"),
             arbitrary([self, bt](auto, auto, auto, auto n) { return self.first_chunk(n, bt); },
                       [self, bt](auto, auto, auto, auto n) { return self.end_chunk(n, bt); })
                 .as("chunk")),
        scalars("decays", decays), scalars("starts", starts),
        in<T>("q", keys, of_keys, key_block).pad(0), in<T>("k", keys, of_keys, key_block).pad(0),
        in<T>("v", values, of_values, value_block).pad(0),
        in<float>("g", keys, of_keys, key_block).pad(0).uniform(-0.5, 0).when(gate == 2),
        in<float>("s0", states, of_state, state_block).when(state),
        in<float>("u", shape(heads, 1, dk), block(squeezed, Int<1>{}, bk), own_block)
            .pad(0)
            .when(own),
        out<T>("o", values, of_values, value_block), out<float>("s", states, of_state, state_block),
        accum<float>("state", bv, bk), accum<float>("acc", bt, bv), vmem<T>("before", bv, bk),
        vmem<T>("keys", bt, bk), vmem<float>("sums", bt, bk));
  }

  /// Everything once; q, k, g and u for each block of values, unless they are one block that stays.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const std::int64_t each = std::int64_t{batch} * heads;
    const std::int64_t states = sequences * each * dk * dv * kBytes<float>;
    const std::int64_t keys = target.keeps_blocks && len <= t[0] ? 1 : ceil_div(dv, t[2]);
    const std::int64_t owns = target.keeps_blocks ? 1 : ceil_div(dv, t[2]);
    return {each * len * (keys * 2 * dk + dv) * kBytes<T> +
                (gate == 2 ? keys * each * len * dk * kBytes<float> : 0) +
                (stateful != 0 ? states : 0) + owns * bonus_bytes(target) +
                decays.size * kBytes<float> + starts.size * kBytes<int>,
            each * len * dv * kBytes<T> + states};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class Q, class K, class V, class G, class S0, class U, class O, class S,
            class State, class Acc, class Before, class Keys, class Sums>
  TESSERA_FN void operator()(Env& env, Q q, K k, V v, G g, S0 s0, U u, O o, S s, State state,
                             Acc acc, Before before, Keys keys, Sums sums) const {
    const auto rows = rows_of(env.program_id(3), env.program_id(4), q.rows);
    if (env.first(4)) {
      *state = 0.f;  // (bv, bk) f32
      if (s0.there()) *state = *s0;
    }
    *sums = sums_of_gates(env, q, g, rows, env.program_id(1));  // (bt, bk) f32: A
    const auto end = sums.row(greater(rows.end - 1, 0));        // (1, bk)
    const auto h = env.program_id(1);
    *before = cast<T>(*state);  // (bv, bk) T
    *acc = 0.f;                 // (bt, bv) f32
    *acc += dot(cast<T>(cast<float>(*q) * scale * exp(asked(sums, u, g, h))), transpose(*before));
    *keys = cast<T>(cast<float>(*k) * exp(*end * 0.5f - *sums));  // (bt, bk) T
    clear_others(keys, rows);
    auto p = load(dot(cast<T>(cast<float>(*q) * scale * exp(asked(sums, u, g, h) - *end * 0.5f)),
                      transpose(*keys)));  // (bt, bt) f32
    if (u.there()) {
      p = where_at(
          p, [](auto t, auto from) { return from < t; }, 0.f);
    } else {
      p = where_at(
          p, [](auto t, auto from) { return from <= t; }, 0.f);
    }
    *acc += dot(cast<T>(p), *v);
    if (u.there()) {
      const auto own = load(row_sum(cast<float>(*q) * scale * *u * cast<float>(*k)));  // (bt, 1)
      *acc = *acc + own * cast<float>(*v);
    }
    store_rows(o, load(cast<T>(*acc)), rows);  // (bt, bv) T
    *keys = cast<T>(cast<float>(*k) * exp(*end - *sums));
    clear_others(keys, rows);
    *state = *state * exp(*end);
    *state += dot(transpose(*v), *keys);
    if (env.last(4)) *s = *state;
  }

 private:
  /// What queries see of the sums of gates.
  template <class Sums, class U, class G>
  TESSERA_FN auto asked(Sums sums, U u, G g, auto h) const {
    auto seen = load(*sums);
    if (u.there()) seen = sums_before(seen, g, h);
    return seen;
  }
};

}  // namespace tessera::kernels
