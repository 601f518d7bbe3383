// The selective scan of Mamba: a diagonal state of each column, discretised step by step.
//
//   h[t,n] = exp(delta[t] a[n]) h[t - 1,n] + delta[t] b[t,n] x[t],   n < states
//   y[t] = sum_n c[t,n] h[t,n] + skip x[t]
//
// of each column of x, delta and a. Gu & Dao, arXiv:2312.00752. State after state, all steps of a
// block are made at once, as an associative scan (Blelloch, CMU-CS-90-190); h of all steps is
// nowhere but in registers. Steps beyond the end have delta = 0: they keep the state. With reverse
// the steps go from the last to the first: h[t] of h[t + 1]. With keep the states that blocks start
// from are kept too, for the gradients (kernels/selective_scan_grad.hpp).
#pragma once

#include "kernels/cases.hpp"
#include "kernels/two_way_scan.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

/// Sizes of a selective scan and of its gradients.
struct ScanSizes {
  int batch = 1;
  int len = 0;
  int d = 0;
  int states = 16;
  int stateful = 0;
  int reverse = 0;
  int keep = 0;  ///< of selective_scan alone: nvcc lists members of one class only

  int block_steps = 1;    ///< bt
  int block_columns = 1;  ///< bd

  static constexpr auto sizes = params(
      size("batch", &ScanSizes::batch, "sequences"), size("len", &ScanSizes::len, "steps"),
      size("d", &ScanSizes::d, "columns"), size("states", &ScanSizes::states, "states of a column"),
      size("stateful", &ScanSizes::stateful,
           "1: from a state, input h0; gradients: from that of the last state"),
      size("reverse", &ScanSizes::reverse, "1: from the last step to the first"));
  static constexpr auto tiles = tile_names(tile("bt"), tile("bd"), tile("bn", "states"));

  const char* valid(Tiles t) const {
    return t[2] == states ? nullptr : "bn is states: y sums over all of them";
  }
  template <class Host>
  void prepare(Host&, Tiles t) {
    block_steps = t[0];
    block_columns = t[1];
  }
  /// x, delta, a, b, c and skip: everything once, but b and c for each block of columns, and a and
  /// skip for each sequence where there are several blocks or none stays.
  template <class T>
  std::int64_t shared_bytes(Tiles t, Target target) const {
    const std::int64_t columns = ceil_div(d, t[1]);
    const std::int64_t steps = std::int64_t{batch} * len;
    const bool stays = target.keeps_blocks && columns == 1;
    const bool steps_stay = target.keeps_blocks && ceil_div(len, t[0]) == 1;
    return 2 * steps * d * kBytes<T> + 2 * steps * states * (steps_stay ? 1 : columns) * kBytes<T> +
           (stays ? 1 : batch) * std::int64_t{states + 1} * d * kBytes<float>;
  }
};

template <class T>
struct SelectiveScan : ScanSizes {
  static constexpr KernelInfo info{
      .name = "selective_scan",
      .summary = "selective scan of Mamba, from a state to a state",
      .math =
          "h[t,n] = exp(delta[t] a[n]) h[t - 1,n] + delta[t] b[t,n] x[t];  y[t] = sum_n c[t,n] "
          "h[t,n] + skip x[t];  last: h at the end",
      .cites = "arXiv:2312.00752"};
  static constexpr bool exchanges = true;

  static constexpr auto sizes = more_sizes(
      ScanSizes::sizes,
      size("keep", &ScanSizes::keep, "1: the states that blocks start from too, for gradients"));
  static constexpr std::array cases{
      Case{"aligned", {2, 64, 256, 16, 0, 0, 0}, {32, 128, 16}},
      Case{"ragged, from a state, kept", {2, 75, 200, 16, 1, 0, 1}, {32, 128, 16}},
      Case{"ragged, reverse, kept", {1, 75, 100, 16, 1, 1, 1}, {32, 128, 16}},
      Case{"degenerate", {1, 1, 1, 1, 1, 0, 0}, {1, 1, 1}}};

  TESSERA_FN auto spec(auto bt, auto bd, auto bn) const {
    const int blocks = ceil_div(len, bt);
    const int first = reverse != 0 ? blocks - 1 : 0;
    const int onwards = reverse != 0 ? -1 : 1;
    auto steps = [first, onwards](auto b, auto j, auto i) { return at(b, i * onwards + first, j); };
    auto all_columns = [first, onwards](auto b, auto, auto i) {
      return at(b, i * onwards + first, 0);
    };
    auto of_block = [first, onwards](auto b, auto j, auto i) {
      return at(b, i * onwards + first, 0, j);
    };
    auto columns = [](auto, auto j, auto) { return at(0, j); };
    auto state = [](auto b, auto j, auto) { return at(b, 0, j); };
    const auto sequences = shape(batch, len, d);
    const auto of_states = shape(batch, len, states);
    const auto kept = shape(batch, states, d);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(ceil_div(d, bd)).as("d"), arbitrary(blocks).as("t")),
        in<T>("x", sequences, block(squeezed, bt, bd), steps).pad(0),
        in<T>("delta", sequences, block(squeezed, bt, bd), steps).pad(0).uniform(0, 1),
        in<float>("a", shape(states, d), block(bn, bd), columns).pad(0).uniform(-1, 0),
        in<T>("b", of_states, block(squeezed, bt, bn), all_columns).pad(0),
        in<T>("c", of_states, block(squeezed, bt, bn), all_columns).pad(0),
        in<float>("skip", shape(1, d), block(Int<1>{}, bd), columns).pad(0),
        in<float>("h0", kept, block(squeezed, bn, bd), state).pad(0).when(stateful != 0),
        out<T>("y", sequences, block(squeezed, bt, bd), steps),
        out<float>("last", kept, block(squeezed, bn, bd), state),
        out<float>("starts", shape(batch, blocks, states, d), block(squeezed, squeezed, bn, bd),
                   of_block)
            .when(keep != 0),
        accum<float>("sum", bt, bd), vmem<float>("h", bn, bd));
  }

  /// What ScanSizes says, and states, results and what is kept once.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const std::int64_t kept = std::int64_t{batch} * states * d * kBytes<float>;
    return {shared_bytes<T>(t, target) + (stateful != 0 ? kept : 0),
            std::int64_t{batch} * len * d * kBytes<T> + kept +
                (keep != 0 ? kept * ceil_div(len, t[0]) : 0)};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class Delta, class A, class B, class C, class Skip, class H0,
            class Y, class Last, class Starts, class Sum, class H>
  TESSERA_FN void operator()(Env& env, X x, Delta delta, A a, B b, C c, Skip skip, H0 h0, Y y,
                             Last last, Starts starts, Sum sum, H h) const {
    if (env.first(2)) {
      *h = 0.f;  // (bn, bd) f32
      if (stateful != 0) *h = *h0;
    }
    const bool back = reverse != 0;
    const int first_row = back ? x.rows - 1 : 0;
    if (keep != 0) *starts = *h;
    *sum = cast<float>(*x) * *skip;  // (bt, bd) f32
    env.loop(0, a.rows, [&](auto n) {
      const auto is_n = [=](auto, auto col) { return col == n; };
      const auto step = load(cast<float>(*delta));                            // (bt, bd) f32
      const auto decay = load(exp(step * *a.row(n)));                         // (bt, bd) f32
      const auto from = load(row_sum(where_at(cast<float>(*b), is_n, 0.f)));  // (bt, 1) f32
      const auto to = load(row_sum(where_at(cast<float>(*c), is_n, 0.f)));    // (bt, 1) f32
      auto drive = load(step * cast<float>(*x) * from);
      const auto begun = load(where_at(
          decay * *h.row(n), [=](auto r, auto) { return r == first_row; }, 0.f));
      drive = load(drive + begun);
      const auto made = load(scan_either_way(decay, drive, back));  // (bt, bd) f32
      *h.row(n) = col_sum(where_at(
          made, [=](auto r, auto) { return r == x.rows - 1 - first_row; }, 0.f));
      *sum = *sum + made * to;
    });
    *y = cast<T>(*sum);  // (bt, bd) T
    if (env.last(2)) *last = *h;
  }
};

}  // namespace tessera::kernels
