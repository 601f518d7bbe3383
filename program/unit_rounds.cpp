#include "program/unit_rounds.hpp"

#include <array>
#include <cmath>

namespace tessera::program {

namespace {

std::int64_t columns_of(const WideProduct& p) {
  return (p.tiles + p.tiles_deep() - 1) / p.tiles_deep();
}

bool is_left_over(const WideProduct& p, std::int64_t tile) {
  return p.tiles % 2 == 1 && tile + 1 == p.tiles;
}

/// Whether both units have a part of the column that this tile is in.
bool is_of_both(const WideProduct& p, std::int64_t tile) {
  const std::int64_t columns = columns_of(p);
  return columns % 2 == 1 && tile / p.tiles_deep() + 1 == columns;
}

/// Where the t-th tile lies, of one column of tiles after the other.
struct TileOnUnits {
  TileOnUnits(const WideProduct& p, std::int64_t t, bool adds_up, double of_first_unit) {
    const auto on = [&](std::int64_t i) { return i % 2 == 0 ? 1. : 0.; };
    const std::int64_t deep = p.tiles_deep();
    const bool left_over = is_left_over(p, t);
    const bool both = is_of_both(p, t);
    of_first = left_over ? of_first_unit : on(adds_up && !both ? t / deep : t);
    is_behind = !left_over && (p.packs || (deep > 1 && (both || !adds_up)));
    if (adds_up) is_added_to = both ? t % deep + 2 < deep - deep % 2 : t % deep + 1 < deep;
  }

  double of_first;           ///< unit's part
  bool is_added_to = false;  ///< in its unit: nothing is popped
  bool is_behind;
};

std::vector<WideRound> rounds_of_one_pass(const WideProduct& p, bool adds_up,
                                          double of_first_unit) {
  std::vector<WideRound> rounds;
  for (std::int64_t t = 0; t < p.tiles; ++t) {
    const std::int64_t results = p.pops_of_tile(t);
    const TileOnUnits tile(p, t, adds_up, of_first_unit);
    const auto of_first = std::llround(tile.of_first * static_cast<double>(results));
    for (std::size_t u = 0; u < kWideUnits; ++u) {
      const std::int64_t begins = u == 0 ? 0 : of_first;
      const std::int64_t ends = u == 0 ? of_first : results;
      if (begins < ends) rounds.push_back({t, u, begins, ends, tile.is_added_to, tile.is_behind});
    }
  }
  return rounds;
}

constexpr std::array<PartsOfRound, WideProduct::kSplitRounds> kPartsOfRounds{{
    {SplitPart::third, SplitPart::first},
    {SplitPart::first, SplitPart::third},
    {SplitPart::rest, SplitPart::rest},
    {SplitPart::second, SplitPart::first},
    {SplitPart::first, SplitPart::second},
    {SplitPart::first, SplitPart::first},
}};

/// The r-th of a tile that is split; `first_has`: so many are the first unit's if they share it.
WideRound split_round(const WideProduct& p, std::int64_t t, std::size_t r, bool adds_up,
                      std::size_t first_has) {
  constexpr std::size_t kAll = WideProduct::kSplitRounds;
  WideRound round{t, r % kWideUnits, 0, p.pops_of_tile(t)};
  round.left = kPartsOfRounds[r].left;
  round.right = kPartsOfRounds[r].right;
  if (!adds_up || p.apart) return round;
  const std::int64_t deep = p.tiles_deep();
  const bool is_last = r + 1 == kAll;
  if (is_left_over(p, t)) {  // the unit that has less begins
    const bool first_begins = 2 * first_has < kAll;
    const std::size_t begins = first_begins ? first_has : kAll - first_has;
    round.unit = (r < begins) == first_begins ? 0 : 1;
    round.is_added_to = r + 1 != begins && !is_last;
    return round;
  }
  const bool both = is_of_both(p, t);
  round.unit = static_cast<std::size_t>(both ? t % deep : t / deep) % kWideUnits;
  const std::int64_t behind = deep - 1 - t % deep;  // tiles of the column
  // The last tile of an odd column is both units'.
  const bool adds = both ? behind > 1 || deep % 2 == 1 : behind > 0;
  round.is_added_to = adds || !is_last;
  return round;
}

}  // namespace

PartsOfRound parts_of_round(std::size_t round) { return kPartsOfRounds[round]; }

std::vector<WideRound> wide_rounds(const WideProduct& p, bool adds_up, double of_first_unit) {
  if (!p.splits) return rounds_of_one_pass(p, adds_up, of_first_unit);
  constexpr std::size_t kAll = WideProduct::kSplitRounds;
  const auto first_has =
      static_cast<std::size_t>(std::lround(of_first_unit * static_cast<double>(kAll)));
  std::vector<WideRound> rounds;
  for (std::int64_t t = 0; t < p.tiles; ++t)
    for (std::size_t r = 0; r < kAll; ++r)
      rounds.push_back(split_round(p, t, r, adds_up, first_has));
  return rounds;
}

}  // namespace tessera::program
