// An elementwise linear recurrence over time, as gated linear recurrent units and state-space
// models with diagonal states run it.
//
//   h[t] = a[t] h[t - 1] + b[t],   h[-1] = h0;   reverse:  h[t] = a[t] h[t + 1] + b[t],   h[len] =
//   h0
//
// De et al. (RG-LRU), arXiv:2402.19427; Gu & Dao (Mamba), arXiv:2312.00752, whose states are
// columns here. Of a block of steps all h are made at once (kernels/two_way_scan.hpp); the state
// goes into the first of them. Steps beyond the end have a = 1 and b = 0. Reverse, on the a that
// are one step later, it is the gradient by b.
#pragma once

#include "kernels/two_way_scan.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/where.hpp"

namespace tessera::kernels {

template <class T>
struct LinearRecurrence {
  static constexpr KernelInfo info{
      .name = "linear_recurrence",
      .summary = "elementwise linear recurrence over time, either way",
      .math = "h[t] = a[t] h[t - 1] + b[t], or from h[t + 1]; last: the state at the end",
      .cites = "arXiv:2402.19427, arXiv:2312.00752"};
  static constexpr bool exchanges = true;

  int batch = 1;
  int len = 0;
  int d = 0;
  int reverse = 0;

  static constexpr auto sizes = params(
      size("batch", &LinearRecurrence::batch, "sequences"),
      size("len", &LinearRecurrence::len, "steps"), size("d", &LinearRecurrence::d, "states"),
      size("reverse", &LinearRecurrence::reverse, "1: from the last step to the first"));
  static constexpr auto tiles = tile_names(tile("bt"), tile("bd"));
  static constexpr std::array cases{
      Case{"aligned", {2, 128, 256, 0}, {32, 128}}, Case{"reverse", {1, 96, 128, 1}, {32, 128}},
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
    const auto of_time = block(squeezed, bt, bd);
    const auto of_state = block(squeezed, Int<1>{}, bd);
    return tessera::spec(
        grid(parallel(batch).as("b"), parallel(ceil_div(d, bd)).as("d"), arbitrary(blocks).as("t")),
        in<T>("a", sequences, of_time, time_block).pad(1).uniform(0, 1),
        in<T>("b", sequences, of_time, time_block).pad(0),
        in<float>("h0", shape(batch, 1, d), of_state, state),
        out<T>("h", sequences, of_time, time_block),
        out<float>("last", shape(batch, 1, d), of_state, state), accum<float>("s", Int<1>{}, bd));
  }

  /// Everything once.
  Bytes hbm_bytes(Tiles, Target) const {
    const std::int64_t steps = std::int64_t{batch} * len * d * kBytes<T>;
    const std::int64_t states = std::int64_t{batch} * d * kBytes<float>;
    return {2 * steps + states, steps + states};
  }

  TESSERA_FN void operator()(auto& env, auto a, auto b, auto h0, auto h, auto last, auto s) const {
    if (env.first(2)) *s = *h0;                // (1, bd) f32
    const auto decay = load(cast<float>(*a));  // (bt, bd) f32
    auto state = load(cast<float>(*b));        // (bt, bd) f32
    const auto order = order_of_rows(state, reverse != 0);
    state = load(where(order == 0, decay * *s + state, state));
    state = scan_either_way(decay, state, reverse != 0);
    *s = col_sum(where(order == a.rows - 1, state, 0.f));
    *h = cast<T>(state);  // (bt, bd) T
    if (env.last(2)) *last = *s;
  }
};

}  // namespace tessera::kernels
