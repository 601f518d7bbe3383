// What a build has or has not, by a tile size: scratch, and operands in place of others.
#pragma once

#include "sim/body/extent.hpp"

namespace tessera::kernels {

/// The extent of scratch, or of a block, that is there unless `tile` is 0: 1 then.
TESSERA_FN constexpr int extent_if(int tile, int extent) { return tile != 0 ? extent : 1; }
template <int kTile, int kExtent>
TESSERA_FN constexpr auto extent_if(Int<kTile>, Int<kExtent>) {
  return Int<(kTile != 0 ? kExtent : 1)>{};
}
/// What is there where `tile` is 0: for .when().
TESSERA_FN constexpr int if_none(int tile) { return tile == 0 ? 1 : 0; }
template <int kTile>
TESSERA_FN constexpr auto if_none(Int<kTile>) {
  return Int<(kTile == 0 ? 1 : 0)>{};
}

}  // namespace tessera::kernels
