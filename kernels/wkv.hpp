// RWKV-4's time mixing: a weighted mean of the values so far, which weighs the newest apart.
//
//   wkv[t] = (e^(u + k[t]) v[t] + sum_{s < t} e^((t - 1 - s) w + k[s]) v[s]) / the same of v = 1
//
// of each column, w <= 0. Peng et al., arXiv:2305.13048; its w here is -exp of the one there. Kept
// are both sums of what came before, times e^-p, and p, the largest exponent in them: no exp is of
// a positive number. Sequences are rows of tiles, so arrays have steps first.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/sub.hpp"

namespace tessera::kernels {

template <class T>
struct Wkv {
  static constexpr KernelInfo info{
      .name = "wkv",
      .summary = "time mixing of RWKV-4 in logarithms, from a state to a state",
      .math =
          "wkv[t] = (e^(u + k[t]) v[t] + a) / (e^(u + k[t]) + b);  a, b: sums of e^((t - 1 - s) w "
          "+ k[s]) v[s] and of the same without v over s < t",
      .cites = "arXiv:2305.13048"};

  int len = 0;
  int batch = 1;
  int d = 0;
  int stateful = 0;

  static constexpr auto sizes =
      params(size("len", &Wkv::len, "steps"), size("batch", &Wkv::batch, "sequences"),
             size("d", &Wkv::d, "columns"),
             size("stateful", &Wkv::stateful, "1: from a state, input s0: a e^-p, b e^-p, p"));
  static constexpr auto tiles = tile_names(tile("bt"), tile("bb"), tile("bd"));
  static constexpr std::array cases{Case{"aligned", {32, 8, 256, 0}, {16, 8, 128}},
                                    Case{"ragged, from a state", {41, 11, 200, 1}, {16, 8, 128}},
                                    Case{"degenerate", {1, 1, 1, 0}, {1, 1, 1}}};

  TESSERA_FN auto spec(auto bt, auto bb, auto bd) const {
    auto steps = [](auto b, auto j, auto i) { return at(i, b, j); };
    auto columns = [](auto, auto j, auto) { return at(0, j); };
    auto state = [](auto b, auto j, auto) { return at(0, b, j); };
    const auto sequences = shape(len, batch, d);
    const auto kept = shape(3, batch, d);
    const auto of_columns = block(Int<1>{}, bd);
    return tessera::spec(
        grid(parallel(ceil_div(batch, bb)).as("b"), parallel(ceil_div(d, bd)).as("d"),
             arbitrary(ceil_div(len, bt)).as("t")),
        in<T>("k", sequences, block(bt, bb, bd), steps),
        in<T>("v", sequences, block(bt, bb, bd), steps),
        in<float>("w", shape(1, d), of_columns, columns).pad(0).uniform(-2, 0),
        in<float>("u", shape(1, d), of_columns, columns).pad(0),
        in<float>("s0", kept, block(Int<3>{}, bb, bd), state)
            .pad(1)
            .uniform(0.1, 1)
            .when(stateful != 0),
        out<T>("o", sequences, block(bt, bb, bd), steps),
        out<float>("s", kept, block(Int<3>{}, bb, bd), state), accum<float>("sum", bb, bd),
        accum<float>("weight", bb, bd), accum<float>("peak", bb, bd));
  }

  /// Everything once, but w and u for each block of sequences where several take turns.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const std::int64_t elems = std::int64_t{batch} * d;
    const std::int64_t kept = 3 * elems * kBytes<float>;
    const bool stays = target.keeps_blocks && ceil_div(d, t[2]) == 1;
    return {2 * len * elems * kBytes<T> + (stateful != 0 ? kept : 0) +
                (stays ? 1 : ceil_div(batch, t[1])) * 2 * std::int64_t{d} * kBytes<float>,
            len * elems * kBytes<T> + kept};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class K, class V, class W, class U, class S0, class O, class S, class Sum,
            class Weight, class Peak>
  TESSERA_FN void operator()(Env& env, K k, V v, W w, U u, S0 s0, O o, S s, Sum sum, Weight weight,
                             Peak peak) const {
    if (env.first(2)) {
      *sum = 0.f;      // (bb, bd) f32
      *weight = 0.f;   // (bb, bd) f32
      *peak = -1e30f;  // (bb, bd) f32
      if (stateful != 0) {
        *sum = *s0.at(0);
        *weight = *s0.at(1);
        *peak = *s0.at(2);
      }
    }
    const int most = o.rows / sum.rows;
    const auto steps = lesser(len - env.program_id(2) * most, most);
    env.loop(0, steps, [&](auto t) {
      const auto key = load(cast<float>(*k.at(t)));    // (bb, bd) f32
      const auto value = load(cast<float>(*v.at(t)));  // (bb, bd) f32
      const auto newest = load(key + *u);
      const auto top = load(max(newest, *peak));
      const auto before = load(exp(*peak - top));
      const auto now = load(exp(newest - top));
      *o.at(t) = cast<T>((before * *sum + now * value) / (before * *weight + now));
      const auto faded = load(*peak + *w);
      *peak = max(faded, key);
      const auto kept = load(exp(faded - *peak));
      const auto added = load(exp(key - *peak));
      *sum = kept * *sum + added * value;
      *weight = kept * *weight + added;
    });
    if (env.last(2)) {
      *s.at(0) = *sum;
      *s.at(1) = *weight;
      *s.at(2) = *peak;
    }
  }
};

}  // namespace tessera::kernels
