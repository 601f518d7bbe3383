// Where operations of a schedule of registers begin besides units of which any will do.
#pragma once

#include <cstddef>

namespace tessera::program {

/// In place of a CoreUnit's number.
enum class Place {
  none = -1,        ///< nothing is taken
  multiplies = -2,  ///< of VALU, in a place of their own
  adds = -3,
  prepares = -4,      ///< a wide matrix unit for a push or a pass: any slot of such
  masks = -5,         ///< what joins masks or packs them
  stores_alone = -6,  ///< a store of which a bundle has no other
  push = 100,         ///< weights of the first matrix unit, then of each other one
  pass = 104,         ///< likewise, what passes them
  turn = 108,         ///< what goes into the first transpose unit, then into each other one
};
inline constexpr int place_number(Place place) { return static_cast<int>(place); }
inline constexpr int kPrepares = place_number(Place::prepares);
inline constexpr int kOfLoad = 3;  ///< cycles
inline constexpr std::size_t kPinnedPlaces = 12;

}  // namespace tessera::program
