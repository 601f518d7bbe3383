// What a build has or has not, by a tile size: operands, and those in place of others.
#pragma once

#include "sim/body/extent.hpp"

namespace tessera::kernels {

/// The extent of a block that is there unless `tile` is 0: that of another one then, with which
/// products compile.
TESSERA_FN constexpr int extent_or(int tile, int other) { return tile != 0 ? tile : other; }
template <int kTile, int kOther>
TESSERA_FN constexpr auto extent_or(Int<kTile>, Int<kOther>) {
  return Int<(kTile != 0 ? kTile : kOther)>{};
}
/// What is there where `tile` is 0: for .when().
TESSERA_FN constexpr int if_none(int tile) { return tile == 0 ? 1 : 0; }
template <int kTile>
TESSERA_FN constexpr auto if_none(Int<kTile>) {
  return Int<(kTile == 0 ? 1 : 0)>{};
}

}  // namespace tessera::kernels
