// Which parts of memory the programs of a grid ask for, in their order, as a cache sees it.
//
// A tile is what one access of one program asks for: the same bytes again are the same tile,
// whoever asks. Sizes count whole granules of kTileGranule bytes, as DRAM gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera {

inline constexpr std::int64_t kTileGranule = 64;

struct GridTile {
  std::int64_t bytes = 0;  ///< in granules
  std::int64_t fresh = 0;  ///< of them, those that no tile before it has
};

struct GridTiles {
  struct Access {
    std::int32_t tile = 0;
    bool write = false;
  };
  std::vector<GridTile> tiles;
  std::vector<Access> accesses;  ///< of all programs that were written down, one after the other
  std::vector<std::size_t>
      begins;  ///< of each program in `accesses`; those of the whole grid first
  /// Bytes that all programs asked for by those that were written down.
  double share = 1;
};

}  // namespace tessera
