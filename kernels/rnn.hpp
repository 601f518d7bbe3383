// A recurrent layer: RNN, GRU or LSTM, whose weights stay in VMEM from the first step to the last.
//
//   RNN:   h[t] = tanh(x[t] + h[t - 1] W)
//   GRU:   r, z = sigmoid(x_g[t] + h[t - 1] W_g) of g = 0, 1
//          n = tanh(x_2[t] + r (h[t - 1] W_2 + b)),   h[t] = (1 - z) n + z h[t - 1]
//   LSTM:  i, f, o = sigmoid(x_g[t] + h[t - 1] W_g) of g = 0, 1, 3
//          c[t] = f c[t - 1] + i tanh(x_2[t] + h[t - 1] W_2),   h[t] = o tanh(c[t])
//
// Elman, doi:10.1207/s15516709cog1402_1; Cho et al. (GRU), arXiv:1406.1078, with its reset behind
// the product as cuDNN has it; Hochreiter & Schmidhuber (LSTM), doi:10.1162/neco.1997.9.8.1735. x
// are products of a layer's inputs and biases, one of all steps, made before; the order of gates
// is torch's. States are f32; what is multiplied, and h in arrays, is rounded to T.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/tanh.hpp"

namespace tessera::kernels {

template <class T>
struct Rnn {
  static constexpr KernelInfo info{
      .name = "rnn",
      .summary = "recurrent layer: RNN, GRU, LSTM, weights kept in VMEM",
      .math =
          "LSTM: c[t] = f c[t - 1] + i tanh(x_2[t] + h[t - 1] W_2);  h[t] = o tanh(c[t]);  i, f, o "
          "= sigmoid(x_g[t] + h[t - 1] W_g), g = 0, 1, 3",
      .cites = "doi:10.1207/s15516709cog1402_1, arXiv:1406.1078, doi:10.1162/neco.1997.9.8.1735"};
  static constexpr bool exchanges = true;
  static constexpr int kGru = 3;
  static constexpr int kLstm = 4;

  int len = 0;
  int batch = 1;
  int d = 0;
  int gates = 1;
  int stateful = 0;

  static constexpr auto sizes =
      params(size("len", &Rnn::len, "steps"), size("batch", &Rnn::batch, "sequences"),
             size("d", &Rnn::d, "columns of h"),
             size("gates", &Rnn::gates, "products of a step: 1 RNN, 3 GRU, 4 LSTM"),
             size("stateful", &Rnn::stateful, "1: from a state, inputs h0 and, LSTM, c0"));
  static constexpr auto tiles =
      tile_names(tile("bb", "batch"), tile("bd", "d"), tile("bg", "gates"));
  static constexpr std::array cases{
      Case{"aligned, LSTM", {12, 64, 64, 4, 1}, {64, 64, 4}},
      Case{"ragged, GRU", {9, 41, 64, 3, 0}, {64, 64, 3}},
      Case{"ragged, RNN, from a state", {10, 90, 64, 1, 1}, {64, 64, 1}},
      Case{"degenerate", {1, 1, 1, 4, 0}, {1, 1, 4}}};

  const char* valid(Tiles t) const {
    if (gates != 1 && gates != kGru && gates != kLstm) return "gates is 1, 3 or 4";
    return t[1] == d && t[2] == gates ? nullptr : "blocks have all of a step: bd = d, bg = gates";
  }

  TESSERA_FN auto spec(auto bb, auto bd, auto bg) const {
    auto step = [](auto b, auto t) { return at(t, 0, b, 0); };
    auto state = [](auto b, auto) { return at(b, 0); };
    auto whole = [](auto, auto) { return at(0, 0, 0); };
    return tessera::spec(
        grid(parallel(ceil_div(batch, bb)).as("b"), arbitrary(len).as("t")),
        in<T>("x", shape(len, gates, batch, d), block(squeezed, bg, bb, bd), step).pad(0),
        in<T>("w", shape(gates, d, d), block(bg, bd, bd), whole).uniform(-0.1, 0.1),
        in<float>("bias", shape(1, d), block(Int<1>{}, bd), [](auto, auto) { return at(0, 0); })
            .when(gates == kGru),
        in<float>("h0", shape(batch, d), block(bb, bd), state).pad(0).when(stateful != 0),
        in<float>("c0", shape(batch, d), block(bb, bd), state)
            .pad(0)
            .when(stateful != 0 && gates == kLstm),
        out<T>("y", shape(len, batch, d), block(squeezed, bb, bd),
               [](auto b, auto t) { return at(t, b, 0); }),
        out<float>("h", shape(batch, d), block(bb, bd), state),
        out<float>("c", shape(batch, d), block(bb, bd), state).when(gates == kLstm),
        accum<float>("hidden", bb, bd), accum<float>("cell", bb, bd), vmem<T>("left", bb, bd));
  }

  /// x and y once, weights once for each block of sequences, or once for all where blocks stay.
  Bytes hbm_bytes(Tiles t, Target target) const {
    const std::int64_t weights = std::int64_t{gates} * d * d * kBytes<T> +
                                 (gates == kGru ? std::int64_t{d} * kBytes<float> : 0);
    const std::int64_t elems = std::int64_t{batch} * d;
    const std::int64_t states = elems * (gates == kLstm ? 2 : 1) * kBytes<float>;
    return {len * gates * elems * kBytes<T> + (stateful != 0 ? states : 0) +
                (target.keeps_blocks ? 1 : ceil_div(batch, t[0])) * weights,
            len * elems * kBytes<T> + states};
  }

  // Named template parameters: nvcc 13.0 crashes on ten `auto` ones.
  template <class Env, class X, class W, class Bias, class H0, class C0, class Y, class H, class C,
            class Hidden, class Cell, class Left>
  TESSERA_FN void operator()(Env& env, X x, W w, Bias bias, H0 h0, C0 c0, Y y, H h, C c,
                             Hidden hidden, Cell cell, Left left) const {
    if (env.first(1)) {
      *hidden = 0.f;  // (bb, bd) f32
      *cell = 0.f;    // (bb, bd) f32
      if (stateful != 0) *hidden = *h0;
      if (stateful != 0 && gates == kLstm) *cell = *c0;
    }
    *left = cast<T>(*hidden);  // (bb, bd) T
    const auto product = [&](int gate) { return load(dot(*left, *w.at(gate))); };
    const auto sum = [&](int gate) { return load(product(gate) + cast<float>(*x.at(gate))); };
    const auto sigmoid = [](auto v) { return load(1.f / (exp(v * -1.f) + 1.f)); };
    if (gates == 1) *hidden = tanh(sum(0));
    if (gates == kGru) {
      const auto reset = load(sigmoid(sum(0)) * (product(2) + *bias));  // (bb, bd) f32
      const auto fresh = load(tanh(reset + cast<float>(*x.at(2))));
      *hidden = fresh + sigmoid(sum(1)) * (*hidden - fresh);
    }
    if (gates == kLstm) {
      *cell = *cell * sigmoid(sum(1));
      *cell = *cell + sigmoid(sum(0)) * tanh(sum(2));
      *hidden = sigmoid(sum(3)) * tanh(*cell);
    }
    *y = cast<T>(*hidden);  // (bb, bd) T
    if (env.last(1)) {
      *h = *hidden;
      if (gates == kLstm) *c = *cell;
    }
  }
};

}  // namespace tessera::kernels
