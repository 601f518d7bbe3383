// In which order tiles of a product's weights lie in two matrix units of 256 x 256.
//
// A round is a tile that is pushed to a unit, and what passes it. In the highest precision each
// side is split into parts (first is x rounded to bf16, rest what is left, second and third of
// that), and each tile takes six rounds:
//
//   left    third  first  rest  second  first   first
//   right   first  third  rest  first   second  first
//
// They lie in either unit by turns where each gives registers of its own (a v6e; two tiles beside
// one another). A v7x adds them up in their unit: a column of tiles lies in one with all its
// rounds, an odd one's tiles in either by turns, and a tile that is left over has rounds in both,
// as many as make both as long (unit_placement.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/unit_wide.hpp"

namespace tessera::program {

inline constexpr std::size_t kWideUnits = 2;

/// Of a register that is split for the highest precision.
enum class SplitPart { first, rest, second, third };
inline constexpr std::size_t kSplitParts = 4;

/// Of a tile's rounds in the highest precision what part of either side passes, and is pushed.
struct PartsOfRound {
  SplitPart left;
  SplitPart right;
};
PartsOfRound parts_of_round(std::size_t round);

struct WideRound {
  std::int64_t tile;
  std::size_t unit;
  std::int64_t begins;  ///< of a tile's registers of results
  std::int64_t ends;
  bool is_added_to = false;  ///< in its unit: nothing is popped
  bool is_behind =
      false;  ///< on the second unit: by a bundle, as it reads other registers than the first
  SplitPart left = SplitPart::first;
  SplitPart right = SplitPart::first;
};

/// `of_first_unit`: its part of a tile that is left over.
std::vector<WideRound> wide_rounds(const WideProduct& product, bool adds_up, double of_first_unit);

}  // namespace tessera::program
