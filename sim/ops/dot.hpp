#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Matrix product: one fused multiply-add per k, in increasing k, starting from the accumulator
/// (from +0 where there is none). f32 accumulation for float operands, f64 for f64, i32 for 8-bit
/// integers. The order makes the bits independent of tile sizes, SIMD width and threads.
struct Dot {
  static constexpr OpInfo info{.name = "dot",
                               .math = "o[i,j] = fma(a[i,k], b[k,j], o[i,j]) for k = 0, 1, ...",
                               .mosaic = "tpu.matmul",
                               .arity = 2,
                               .max_ulp = 0.5,
                               .flops = 2};
  template <class T>
  TESSERA_FN static T apply(T a, T b, T accumulator) {
    if constexpr (std::is_floating_point_v<T>)
      return std::fma(a, b, accumulator);
    else
      return static_cast<T>(static_cast<Wrapping<T>>(accumulator) +
                            static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

/// The integers that dot() multiplies.
template <class T>
inline constexpr bool kIsByte = std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::uint8_t>;

/// a (m, k) times b (k, n): a right-hand side for `*acc = `, `*acc += ` and load(); transpose()
/// marks either operand. Give it a name only through load(dot(a, b)).
template <TileLike A, TileLike B>
TESSERA_FN auto dot(const A& a, const B& b) {
  return A::Backend::dot(a, b);
}

/// The operand of a dot, read with rows and columns exchanged; nothing moves.
template <TileLike A>
TESSERA_FN auto transpose(const A& a) {
  return A::Backend::transpose(a);
}

/// A right-hand side as a tile with a name: load(dot(a, b)), load(*ref).
template <class X>
TESSERA_FN auto load(X&& x) {
  return std::remove_cvref_t<X>::Backend::load(static_cast<X&&>(x));
}

}  // namespace tessera
