// What becomes of a product before it is stored: objects that matmul_epilogue and grouped_matmul
// take by their size `epilogue`, a sum of
//
//   1  gelu            z (1 + erf(z / sqrt 2)) / 2             Hendrycks & Gimpel, arXiv:1606.08415
//   2  gelu by tanh    z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2
//   3  swiglu          z logistic(z) (x @ v)                   Shazeer, arXiv:2002.05202
//   4  relu            max(z, 0)
//   8  layer norm      before it: z = (h - mean_j h) rsqrt(var_j h + eps) gamma + beta
//                      Ba et al., arXiv:1607.06450; blocks hold whole rows
//   16 bias            before that: h + bias
//
// Operands of those that are not asked for are absent by type, of the tile size `ep`.
#pragma once

#include <type_traits>

#include "sim/body/extent.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/erf.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/rsqrt.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/tanh.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::kernels {

struct Epilogue {
  enum Activation : int { kNone, kGelu, kGeluTanh, kSwiglu, kRelu };
  int code;

  TESSERA_FN constexpr int activation() const { return code % 8; }
  TESSERA_FN constexpr bool gated() const { return activation() == kSwiglu; }
  TESSERA_FN constexpr bool normed() const { return code / 8 % 2 != 0; }
  TESSERA_FN constexpr bool biased() const { return code / 16 % 2 != 0; }

  const char* fault(int n, int bn) const {
    if (code < 0 || code > 31 || activation() > kRelu) return "there is no such epilogue";
    if (normed() && bn < n) return "of a layer norm bn must hold a whole row: bn >= n";
    return gated() && code != kSwiglu ? "swiglu is of products as they are: epilogue = 3" : nullptr;
  }
};

/// Whether a build has an operand, of its tile size: for .when().
template <class Has>
TESSERA_FN constexpr int epilogue_has(int ep, Has has) {
  return has(Epilogue{ep}) ? 1 : 0;
}
template <int kEp, class Has>
TESSERA_FN constexpr auto epilogue_has(Int<kEp>, Has) {
  return Int<(Has{}(Epilogue{kEp}) ? 1 : 0)>{};
}
struct IsGated {
  TESSERA_FN constexpr bool operator()(Epilogue e) const { return e.gated(); }
};
struct IsNormed {
  TESSERA_FN constexpr bool operator()(Epilogue e) const { return e.normed(); }
};
struct IsBiased {
  TESSERA_FN constexpr bool operator()(Epilogue e) const { return e.biased(); }
};
/// Columns of a scratch that is never there: they tell a body the activation, a GPU's by type.
TESSERA_FN constexpr int activation_tag(int ep) { return 1 + Epilogue{ep}.activation(); }
template <int kEp>
TESSERA_FN constexpr auto activation_tag(Int<kEp>) {
  return Int<1 + Epilogue{kEp}.activation()>{};
}
/// Whether a build may have an activation: what it has not is not compiled.
template <class Columns, int kWhich>
inline constexpr bool kMayBe = true;
template <int kColumns, int kWhich>
inline constexpr bool kMayBe<Int<kColumns>, kWhich> = kColumns == 1 + kWhich;

/// Of an accumulator (bm, bn) f32, in place: a GPU's registers hold it and little else.
struct Gelu {
  TESSERA_FN void operator()(auto acc) const {
    *acc = *acc * 0.5f * (erf(*acc * 0.70710678f) + 1.f);
  }
};
struct GeluTanh {
  TESSERA_FN void operator()(auto acc) const {
    *acc = *acc * 0.5f * (tanh(*acc * 0.79788456f * (*acc * *acc * 0.044715f + 1.f)) + 1.f);
  }
};
struct Relu {
  TESSERA_FN void operator()(auto acc) const { *acc = max(*acc, 0.f); }
};
/// `up`: another accumulator.
struct Swiglu {
  TESSERA_FN void operator()(auto acc, auto up) const {
    *acc = *acc / (exp(*acc * -1.f) + 1.f) * *up;
  }
};
/// Of rows of n columns; what lies beyond them in the block is zero, and masked in squares.
struct LayerNorm {
  int n;
  float eps;
  TESSERA_FN void operator()(auto acc, auto gamma, auto beta) const {
    const int columns = n;
    const float inverse_n = 1.f / static_cast<float>(n);
    auto mean = row_sum(*acc) * inverse_n;  // (bm, 1)
    *acc = where_at(
        *acc - mean, [=](auto, auto c) { return c < columns; }, 0.f);  // (bm, bn)
    auto variance = row_sum(*acc * *acc) * inverse_n;                  // (bm, 1)
    *acc = *acc * rsqrt(variance + eps) * *gamma + *beta;
  }
};

/// All that is asked for: `tag` has activation_tag columns.
template <class Acc, class Up, class V, class Bias, class Gamma, class Beta, class Tag>
TESSERA_FN void finish(LayerNorm norm, Acc acc, Up up, V v, Bias bias, Gamma gamma, Beta beta,
                       Tag tag) {
  using Columns = std::remove_cvref_t<decltype(tag.cols)>;
  if (bias.there()) *acc += *bias;
  if (gamma.there()) norm(acc, gamma, beta);
  if (v.there()) Swiglu{}(acc, up);
  if constexpr (kMayBe<Columns, Epilogue::kGelu>) {
    if (tag.cols == 1 + Epilogue::kGelu) Gelu{}(acc);
  }
  if constexpr (kMayBe<Columns, Epilogue::kGeluTanh>) {
    if (tag.cols == 1 + Epilogue::kGeluTanh) GeluTanh{}(acc);
  }
  if constexpr (kMayBe<Columns, Epilogue::kRelu>) {
    if (tag.cols == 1 + Epilogue::kRelu) Relu{}(acc);
  }
}

}  // namespace tessera::kernels
