#pragma once

#include "sim/ops/add.hpp"
#include "sim/ops/bitcast.hpp"
#include "sim/ops/bitwise.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/shift.hpp"
#include "sim/ops/where.hpp"

namespace tessera {

/// x to tf32, which is f32 with 10 bits of fraction: to nearest, ties to even; beyond the largest,
/// infinity; a NaN as it is. A factor of dot() whose products are exact in f32, in every build;
/// their sum is f32's.
template <TileLike A>
TESSERA_FN auto round_tf32(const A& x) {
  static_assert(std::is_same_v<typename A::Element, float>, "round_tf32 is of f32");
  const auto bits = bitcast<std::int32_t>(x);
  const auto rounded = (bits + ((bits >> 13 & 1) + 0xfff)) & ~0x1fff;
  return where(x == x, bitcast<float>(rounded), x);
}

}  // namespace tessera
