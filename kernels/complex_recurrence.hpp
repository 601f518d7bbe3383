// An elementwise linear recurrence over time of complex numbers, as diagonal state-space models and
// linear recurrent units with rotating states run it.
//
//   h[t] = a[t] h[t - 1] + b[t],   h[-1] = h0;   reverse:  h[t] = a[t] h[t + 1] + b[t],   h[len] =
//   h0
//
// Orvieto et al. (LRU), arXiv:2303.06349; Smith et al. (S5), arXiv:2208.04933. Real and imaginary
// parts are arrays of their own. Scans, blocks and steps beyond the end as in
// kernels/linear_recurrence.hpp. Reverse, on the conjugates of the a that are one step later, it is
// the gradient by b.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/greater_equal.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

template <class T>
struct ComplexRecurrence {
  static constexpr KernelInfo info{
      .name = "complex_recurrence",
      .summary = "elementwise linear recurrence of complex numbers over time, either way",
      .math =
          "h[t] = a[t] h[t - 1] + b[t], or from h[t + 1], of complex numbers; last: the state at "
          "the end",
      .cites = "arXiv:2303.06349, arXiv:2208.04933"};
  static constexpr bool exchanges = true;

  int batch = 1;
  int len = 0;
  int d = 0;
  int reverse = 0;

  using Self = ComplexRecurrence;
  static constexpr auto sizes =
      params(size("batch", &Self::batch, "sequences"), size("len", &Self::len, "steps"),
             size("d", &Self::d, "states"),
             size("reverse", &Self::reverse, "1: from the last step to the first"));
  static constexpr auto tiles = tile_names(tile("bt"), tile("bd"));
  static constexpr std::array cases{
      Case{"aligned", {2, 64, 256, 0}, {32, 128}}, Case{"reverse", {1, 96, 128, 1}, {32, 128}},
      Case{"ragged", {2, 75, 200, 0}, {32, 128}},
      Case{"ragged, reverse", {2, 41, 90, 1}, {32, 128}}, Case{"degenerate", {1, 1, 1, 0}, {1, 1}}};

  TESSERA_FN auto spec(auto bt, auto bd) const {
    const int blocks = ceil_div(len, bt);
    const int first = reverse != 0 ? blocks - 1 : 0;
    const int onwards = reverse != 0 ? -1 : 1;
    auto time_block = [first, onwards](auto b, auto j, auto i) {
      return at(b, i * onwards + first, j);
    };
    auto state = [](auto b, auto j, auto) { return at(b, 0, j); };
    const auto sequences = shape(batch, len, d);
    const auto states = shape(batch, 1, d);
    const auto of_time = block(squeezed, bt, bd);
    const auto of_state = block(squeezed, Int<1>{}, bd);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(ceil_div(d, bd)).as("d"), arbitrary(blocks).as("t")),
        in<T>("a_re", sequences, of_time, time_block).pad(1).uniform(-0.7, 0.7),
        in<T>("a_im", sequences, of_time, time_block).pad(0).uniform(-0.7, 0.7),
        in<T>("b_re", sequences, of_time, time_block).pad(0),
        in<T>("b_im", sequences, of_time, time_block).pad(0),
        in<float>("h0_re", states, of_state, state), in<float>("h0_im", states, of_state, state),
        out<T>("h_re", sequences, of_time, time_block),
        out<T>("h_im", sequences, of_time, time_block),
        out<float>("last_re", states, of_state, state),
        out<float>("last_im", states, of_state, state), accum<float>("s_re", Int<1>{}, bd),
        accum<float>("s_im", Int<1>{}, bd));
  }

  /// Everything once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t steps = 2 * std::int64_t{batch} * len * d * kBytes<T>;
    const std::int64_t states = 2 * std::int64_t{batch} * d * kBytes<float>;
    return {2 * steps + states, steps + states};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class ARe, class AIm, class BRe, class BIm, class H0Re, class H0Im,
            class HRe, class HIm, class LastRe, class LastIm, class SRe, class SIm>
  TESSERA_FN void operator()(Env& env, ARe a_re, AIm a_im, BRe b_re, BIm b_im, H0Re h0_re,
                             H0Im h0_im, HRe h_re, HIm h_im, LastRe last_re, LastIm last_im,
                             SRe s_re, SIm s_im) const {
    if (env.first(2)) {
      *s_re = *h0_re;  // (1, bd) f32
      *s_im = *h0_im;
    }
    auto turn_re = load(cast<float>(*a_re));  // (bt, bd) f32
    auto turn_im = load(cast<float>(*a_im));
    auto re = load(cast<float>(*b_re));
    auto im = load(cast<float>(*b_im));
    const int steps = a_re.rows;
    const auto order = load(reverse != 0 ? row_ids(re) * -1 + (steps - 1) : row_ids(re) * 1 + 0);
    const auto with_first = load(where(order == 0, turn_re * *s_re - turn_im * *s_im + re, re));
    im = load(where(order == 0, turn_re * *s_im + turn_im * *s_re + im, im));
    re = with_first;
    for (int apart = 1; apart < steps; apart *= 2) {
      const auto inside = load(order >= apart);
      const int by = reverse != 0 ? -apart : apart;
      const auto before_re = load(roll_rows(re, by));
      const auto before_im = load(roll_rows(im, by));
      re = load(where(inside, turn_re * before_re - turn_im * before_im + re, re));
      im = load(where(inside, turn_re * before_im + turn_im * before_re + im, im));
      const auto turned_re = load(roll_rows(turn_re, by));
      const auto turned_im = load(roll_rows(turn_im, by));
      const auto both = load(where(inside, turn_re * turned_re - turn_im * turned_im, turn_re));
      turn_im = load(where(inside, turn_re * turned_im + turn_im * turned_re, turn_im));
      turn_re = both;
    }
    *s_re = col_sum(where(order == steps - 1, re, 0.f));
    *s_im = col_sum(where(order == steps - 1, im, 0.f));
    *h_re = cast<T>(re);  // (bt, bd) T
    *h_im = cast<T>(im);
    if (env.last(2)) {
      *last_re = *s_re;
      *last_im = *s_im;
    }
  }
};

}  // namespace tessera::kernels
