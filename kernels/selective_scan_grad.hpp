// Gradients of selective_scan, from the last block of steps to the first.
//
//   G[t,n] = c[t,n] dy[t] + exp(delta[t + 1] a[n]) G[t + 1,n],   G after the end: dlast
//   dx[t] = skip dy[t] + sum_n G[t,n] delta[t] b[t,n],   dskip = sum_t dy[t] x[t]
//   ddelta[t] = sum_n G[t,n] (a[n] exp(delta[t] a[n]) h[t - 1,n] + b[t,n] x[t])
//   da[n] = sum_t G[t,n] delta[t] exp(delta[t] a[n]) h[t - 1,n],   dh0[n] = exp(delta[0] a[n])
//   G[0,n] db[t,n] = sum over columns of G[t,n] delta[t] x[t],   dc[t,n] = sum over columns of
//   dy[t] h[t,n]
//
// Gu & Dao, arXiv:2312.00752, section 3.3.2: h is made again block by block, from the states
// `starts` that the forward pass keeps (keep=1), and is nowhere but in registers. da and dskip are
// of each sequence, db and dc of each block of columns: split_sum adds them in order. With reverse
// all goes the other way round, as in the forward pass.
#pragma once

#include "kernels/selective_scan.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

template <class T>
struct SelectiveScanGrad : ScanSizes {
  static constexpr KernelInfo info{
      .name = "selective_scan_grad",
      .summary = "gradients of selective_scan",
      .math =
          "G[t,n] = c[t,n] dy[t] + exp(delta[t + 1] a[n]) G[t + 1,n];  dx, ddelta, da, db, dc, "
          "dskip, dh0 of G and of h, made again",
      .cites = "arXiv:2312.00752"};
  static constexpr bool exchanges = true;

  static constexpr std::array cases{
      Case{"aligned", {2, 64, 256, 16, 0, 0}, {32, 128, 16}},
      Case{"ragged, from a state", {2, 75, 200, 16, 1, 0}, {32, 128, 16}},
      Case{"ragged, reverse", {1, 75, 100, 16, 1, 1}, {32, 128, 16}},
      Case{"degenerate", {1, 1, 1, 1, 1, 0}, {1, 1, 1}}};

  TESSERA_FN auto spec(auto bt, auto bd, auto bn) const {
    const int blocks = ceil_div(len, bt);
    const int first = reverse != 0 ? 0 : blocks - 1;
    const int onwards = reverse != 0 ? 1 : -1;
    auto steps = [first, onwards](auto b, auto j, auto i) { return at(b, i * onwards + first, j); };
    auto all_columns = [first, onwards](auto b, auto, auto i) {
      return at(b, i * onwards + first, 0);
    };
    auto of_columns = [first, onwards](auto b, auto j, auto i) {
      return at(j, b, i * onwards + first, 0);
    };
    auto of_block = [first, onwards](auto b, auto j, auto i) {
      return at(b, i * onwards + first, 0, j);
    };
    auto columns = [](auto, auto j, auto) { return at(0, j); };
    auto state = [](auto b, auto j, auto) { return at(b, 0, j); };
    const auto sequences = shape(batch, len, d);
    const auto of_states = shape(batch, len, states);
    const auto parts = shape(ceil_div(d, bd), batch, len, states);
    const auto kept = shape(batch, states, d);
    const auto of_steps = block(squeezed, bt, bd);
    const auto of_parts = block(squeezed, squeezed, bt, bn);
    const auto of_kept = block(squeezed, bn, bd);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(ceil_div(d, bd)).as("d"), arbitrary(blocks).as("t")),
        in<T>("x", sequences, of_steps, steps).pad(0),
        in<T>("delta", sequences, of_steps, steps).pad(0).uniform(0, 1),
        in<float>("a", shape(states, d), block(bn, bd), columns).pad(0).uniform(-1, 0),
        in<T>("b", of_states, block(squeezed, bt, bn), all_columns).pad(0),
        in<T>("c", of_states, block(squeezed, bt, bn), all_columns).pad(0),
        in<float>("skip", shape(1, d), block(Int<1>{}, bd), columns).pad(0),
        in<float>("starts", shape(batch, blocks, states, d), block(squeezed, squeezed, bn, bd),
                  of_block)
            .pad(0),
        in<T>("dy", sequences, of_steps, steps).pad(0),
        in<float>("dlast", kept, of_kept, state).pad(0).when(stateful != 0),
        out<T>("dx", sequences, of_steps, steps), out<T>("ddelta", sequences, of_steps, steps),
        out<float>("da", kept, of_kept, state), out<float>("db", parts, of_parts, of_columns),
        out<float>("dc", parts, of_parts, of_columns),
        out<float>("dskip", shape(batch, 1, d), block(squeezed, Int<1>{}, bd), state),
        out<float>("dh0", kept, of_kept, state).when(stateful != 0), accum<float>("dx_sum", bt, bd),
        accum<float>("ddelta_sum", bt, bd), accum<float>("db_sum", bt, bn),
        accum<float>("dc_sum", bt, bn), vmem<float>("carry", bn, bd), vmem<float>("da_sum", bn, bd),
        vmem<float>("dskip_sum", Int<1>{}, bd));
  }

  /// Everything once, but what the forward pass reads again, and db and dc for each block of
  /// columns.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const std::int64_t columns = ceil_div(d, t[1]);
    const std::int64_t steps = std::int64_t{batch} * len;
    const std::int64_t kept = std::int64_t{batch} * states * d * kBytes<float>;
    const std::int64_t of_state = stateful != 0 ? kept : 0;
    return {
        shared_bytes<T>(t, target) + steps * d * kBytes<T> + kept * ceil_div(len, t[0]) + of_state,
        2 * steps * d * kBytes<T> + kept + 2 * columns * steps * states * kBytes<float> +
            std::int64_t{batch} * d * kBytes<float> + of_state};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class Delta, class A, class B, class C, class Skip, class Starts,
            class Dy, class Dlast, class Dx, class Ddelta, class Da, class Db, class Dc,
            class Dskip, class Dh0, class DxSum, class DdeltaSum, class DbSum, class DcSum,
            class Carry, class DaSum, class DskipSum>
  TESSERA_FN void operator()(Env& env, X x, Delta delta, A a, B b, C c, Skip skip, Starts starts,
                             Dy dy, Dlast dlast, Dx dx, Ddelta ddelta, Da da, Db db, Dc dc,
                             Dskip dskip, Dh0 dh0, DxSum dx_sum, DdeltaSum ddelta_sum, DbSum db_sum,
                             DcSum dc_sum, Carry carry, DaSum da_sum, DskipSum dskip_sum) const {
    if (env.first(2)) {
      *carry = 0.f;      // (bn, bd) f32: what the step behind hands back
      *da_sum = 0.f;     // (bn, bd) f32
      *dskip_sum = 0.f;  // (1, bd) f32
      if (stateful != 0) *carry = *dlast;
    }
    const bool back = reverse != 0;
    const int first_row = back ? x.rows - 1 : 0;
    *dx_sum = cast<float>(*dy) * *skip;  // (bt, bd) f32
    *ddelta_sum = 0.f;                   // (bt, bd) f32
    *db_sum = 0.f;                       // (bt, bn) f32
    *dc_sum = 0.f;                       // (bt, bn) f32
    *dskip_sum = *dskip_sum + col_sum(cast<float>(*dy) * cast<float>(*x));
    env.loop(0, a.rows, [&](auto n) {
      const auto is_n = [=](auto, auto col) { return col == n; };
      const auto step = load(cast<float>(*delta));                            // (bt, bd) f32
      const auto decay = load(exp(step * *a.row(n)));                         // (bt, bd) f32
      const auto from = load(row_sum(where_at(cast<float>(*b), is_n, 0.f)));  // (bt, 1) f32
      const auto to = load(row_sum(where_at(cast<float>(*c), is_n, 0.f)));    // (bt, 1) f32
      auto drive = load(step * cast<float>(*x) * from);
      const auto begun = load(where_at(
          decay * *starts.row(n), [=](auto r, auto) { return r == first_row; }, 0.f));
      drive = load(drive + begun);
      const auto made = load(scan_either_way(decay, drive, back));  // (bt, bd) f32: h
      const auto order = load(order_of_rows(made, back));
      const auto before = load(where(order == 0, *starts.row(n), roll_rows(made, back ? -1 : 1)));
      // G, the other way: the last row has what the step behind it hands back.
      auto given = load(cast<float>(*dy) * to);
      given = load(given + where(order == x.rows - 1, *carry.row(n), 0.f));
      const auto later = load(roll_rows(decay, back ? 1 : -1));
      const auto grad = load(scan_either_way(later, given, !back));  // (bt, bd) f32
      const auto handed = load(grad * decay);
      *carry.row(n) = col_sum(where(order == 0, handed, 0.f));
      const auto by_decay = load(handed * before);
      *da_sum.row(n) = *da_sum.row(n) + col_sum(by_decay * step);
      *ddelta_sum = *ddelta_sum + by_decay * *a.row(n) + grad * cast<float>(*x) * from;
      *dx_sum = *dx_sum + grad * step * from;
      const auto by_b = load(row_sum(grad * step * cast<float>(*x)));  // (bt, 1) f32
      const auto by_c = load(row_sum(cast<float>(*dy) * made));        // (bt, 1) f32
      *db_sum = *db_sum + where(col_ids(*b) == n, by_b, 0.f);
      *dc_sum = *dc_sum + where(col_ids(*c) == n, by_c, 0.f);
    });
    *dx = cast<T>(*dx_sum);          // (bt, bd) T
    *ddelta = cast<T>(*ddelta_sum);  // (bt, bd) T
    *db = *db_sum;                   // (bt, bn) f32
    *dc = *dc_sum;                   // (bt, bn) f32
    if (env.last(2)) {
      *da = *da_sum;
      *dskip = *dskip_sum;
      if (stateful != 0) *dh0 = *carry;
    }
  }
};

}  // namespace tessera::kernels
