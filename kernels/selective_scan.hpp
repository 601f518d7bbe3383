// The selective scan of Mamba: a diagonal state of each column, discretised step by step.
//
//   h[t,n] = exp(delta[t] a[n]) h[t - 1,n] + delta[t] b[t,n] x[t],   n < states
//   y[t] = sum_n c[t,n] h[t,n] + skip x[t]
//
// of each column of x, delta and a. Gu & Dao, arXiv:2312.00752. State after state, all steps of a
// block are made at once, as an associative scan (Blelloch, CMU-CS-90-190); h of all steps is
// nowhere but in registers. Steps beyond the end have delta = 0: they keep the state.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/scan.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct SelectiveScan {
  static constexpr KernelInfo info{
      .name = "selective_scan",
      .summary = "selective scan of Mamba, from a state to a state",
      .math =
          "h[t,n] = exp(delta[t] a[n]) h[t - 1,n] + delta[t] b[t,n] x[t];  y[t] = sum_n c[t,n] "
          "h[t,n] + skip x[t];  last: h at the end",
      .cites = "arXiv:2312.00752"};
  static constexpr bool exchanges = true;

  int batch = 1;
  int len = 0;
  int d = 0;
  int states = 16;
  int stateful = 0;

  static constexpr auto sizes =
      params(size("batch", &SelectiveScan::batch, "sequences"),
             size("len", &SelectiveScan::len, "steps"), size("d", &SelectiveScan::d, "columns"),
             size("states", &SelectiveScan::states, "states of a column"),
             size("stateful", &SelectiveScan::stateful, "1: from a state, input h0"));
  static constexpr auto tiles = tile_names(tile("bt"), tile("bd"), tile("bn", "states"));
  static constexpr std::array cases{
      Case{"aligned", {2, 64, 256, 16, 0}, {32, 128, 16}},
      Case{"ragged, from a state", {2, 75, 200, 16, 1}, {32, 128, 16}},
      Case{"degenerate", {1, 1, 1, 1, 1}, {1, 1, 1}}};

  const char* valid(Tiles t) const {
    return t[2] == states ? nullptr : "bn is states: y sums over all of them";
  }

  TESSERA_FN auto spec(auto bt, auto bd, auto bn) const {
    auto steps = [](auto b, auto j, auto i) { return at(b, i, j); };
    auto all_columns = [](auto b, auto, auto i) { return at(b, i, 0); };
    auto columns = [](auto, auto j, auto) { return at(0, j); };
    auto state = [](auto b, auto j, auto) { return at(b, 0, j); };
    const auto sequences = shape(batch, len, d);
    const auto of_states = shape(batch, len, states);
    const auto kept = shape(batch, states, d);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(ceil_div(d, bd)).as("d"),
             arbitrary(ceil_div(len, bt)).as("t")),
        in<T>("x", sequences, block(squeezed, bt, bd), steps).pad(0),
        in<T>("delta", sequences, block(squeezed, bt, bd), steps).pad(0).uniform(0, 1),
        in<float>("a", shape(states, d), block(bn, bd), columns).pad(0).uniform(-1, 0),
        in<T>("b", of_states, block(squeezed, bt, bn), all_columns).pad(0),
        in<T>("c", of_states, block(squeezed, bt, bn), all_columns).pad(0),
        in<float>("skip", shape(1, d), block(Int<1>{}, bd), columns).pad(0),
        in<float>("h0", kept, block(squeezed, bn, bd), state).pad(0).when(stateful != 0),
        out<T>("y", sequences, block(squeezed, bt, bd), steps),
        out<float>("last", kept, block(squeezed, bn, bd), state), accum<float>("sum", bt, bd),
        vmem<float>("h", bn, bd));
  }

  /// Everything once, but b and c for each block of columns, and a and skip for each sequence where
  /// there are several blocks or none stays.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const std::int64_t columns = ceil_div(d, t[1]);
    const std::int64_t steps = std::int64_t{batch} * len;
    const std::int64_t kept = std::int64_t{batch} * states * d * kBytes<float>;
    const bool stays = target.keeps_blocks && columns == 1;
    const bool steps_stay = target.keeps_blocks && ceil_div(len, t[0]) == 1;
    return {2 * steps * d * kBytes<T> +
                2 * steps * states * (steps_stay ? 1 : columns) * kBytes<T> +
                (stays ? 1 : batch) * std::int64_t{states + 1} * d * kBytes<float> +
                (stateful != 0 ? kept : 0),
            steps * d * kBytes<T> + kept};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class Delta, class A, class B, class C, class Skip, class H0,
            class Y, class Last, class Sum, class H>
  TESSERA_FN void operator()(Env& env, X x, Delta delta, A a, B b, C c, Skip skip, H0 h0, Y y,
                             Last last, Sum sum, H h) const {
    if (env.first(2)) {
      *h = 0.f;  // (bn, bd) f32
      if (stateful != 0) *h = *h0;
    }
    *sum = cast<float>(*x) * *skip;  // (bt, bd) f32
    env.loop(0, a.rows, [&](auto n) {
      const auto is_n = [=](auto, auto col) { return col == n; };
      const auto step = load(cast<float>(*delta));                            // (bt, bd) f32
      const auto decay = load(exp(step * *a.row(n)));                         // (bt, bd) f32
      const auto from = load(row_sum(where_at(cast<float>(*b), is_n, 0.f)));  // (bt, 1) f32
      const auto to = load(row_sum(where_at(cast<float>(*c), is_n, 0.f)));    // (bt, 1) f32
      auto drive = load(step * cast<float>(*x) * from);
      const auto begun = load(where_at(
          decay * *h.row(n), [](auto r, auto) { return r == 0; }, 0.f));
      drive = load(drive + begun);
      const auto made = load(linear_scan_rows(decay, drive));  // (bt, bd) f32
      *h.row(n) = col_sum(where_at(
          made, [=](auto r, auto) { return r == x.rows - 1; }, 0.f));
      *sum = *sum + made * to;
    });
    *y = cast<T>(*sum);  // (bt, bd) T
    if (env.last(2)) *last = *h;
  }
};

}  // namespace tessera::kernels
