// On which of four matrix units of 128 x 128 the products of a stretch of code lie.
//
// A tile of weights lies in one unit, for all rows that are multiplied by it. In the order of the
// program each is given to the unit that has least to do; then what has most to do gives whole
// tiles to what has least, if that helps, and at last rows of one:
//
//   one product of one tile    each unit has as many of its rows
//   8, 9, ... 15 rows of a     8 and 12 and 3 of 15, 9 and 13 and 1 of 14, 10 and 13 of 14,
//   tile each                  11 and 12 of 15
//   8, 16, 24, 32, 40, 48, 9,  8 and 40, 48, 16 and 24 and 9, 32 and 10
//   10
//
// By listings of some 60 kernels of one to twelve products on a v5e and a v5p (libtpu 0.0.42.1).
// Of two wide units others are known (unit_placement.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::program {

inline constexpr std::size_t kMostMatrixUnits = 4;
inline constexpr int kCyclesOfPass = 8;  ///< that eight rows take a unit

/// What part of the passes each unit has; a core has so many units, others have none.
using MatrixUnits = std::array<double, kMostMatrixUnits>;

/// An op's tiles of weights. None: it is no product, or one that is given to all units.
struct TilesToPlace {
  std::int64_t tiles = 0;
  double cycles = 0;  ///< that each takes a unit
};

/// Of each op of a stretch its tiles, on so many units.
std::vector<std::vector<MatrixUnits>> dealt_out(const std::vector<TilesToPlace>& ops,
                                                std::size_t units);

}  // namespace tessera::program
