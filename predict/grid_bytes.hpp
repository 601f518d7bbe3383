// Which bytes of a grid's programs DRAM gives and takes: their tiles, in the order of the grid, as
// many programs at once as the device holds, one access of each in turns, those that an SM does not
// keep up with behind the others, against an L2 that is empty at first (predict/l2_cache.hpp).
//
// Left out: sectors whose neighbours nobody asks for, and what a cache writes back before it must.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "memory_model/device_spec.hpp"
#include "memory_model/grid_tiles.hpp"

namespace tessera::predict {

/// Of what programs read, the parts that nobody before read, that another program did, and that
/// the same program did.
struct ReadShares {
  double first = 1;
  double others = 0;
  double own = 0;
};

struct GridReads {
  ReadShares accesses;
  ReadShares bytes;
};
GridReads grid_reads(const GridTiles& tiles);

struct GridBytes {
  double dram_read = 0;
  double dram_written = 0;  ///< before the last program ends
};

/// How programs run that share SMs (side_by_side of predict/grid_time.hpp).
struct SideBySide {
  int resident = 1;  ///< on an SM at once
  /// The part of what a program reads again that is no longer in the L2, where programs go out of
  /// step.
  std::optional<double> gone = {};
  /// Programs of an SM that it keeps up with: those beyond fall behind the first ones.
  double kept_up = std::numeric_limits<double>::infinity();
};

/// The device has constants of a model.
GridBytes grid_bytes(const DeviceSpec& device, const GridTiles& tiles, const SideBySide& how);

}  // namespace tessera::predict
