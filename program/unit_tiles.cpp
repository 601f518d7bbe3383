#include "program/unit_tiles.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace tessera::program {

namespace {

constexpr double kNone = 1e-6;  // cycles

/// A tile, and how much of it a unit has.
struct Placed {
  std::size_t op;
  std::size_t number;  ///< of the op's tiles
  double cycles;
};

struct Unit {
  std::vector<Placed> tiles;
  double cycles = 0;

  void take(const Placed& tile) {
    tiles.push_back(tile);
    cycles += tile.cycles;
  }
};

bool has_less(const Unit& a, const Unit& b) { return a.cycles < b.cycles - kNone; }

/// Whether a whole tile of the one that has most was given to the one that has least.
bool moved(std::span<Unit> units) {
  Unit& most = *std::ranges::max_element(units, has_less);
  Unit& least = *std::ranges::min_element(units, has_less);
  const auto then = [&](const Placed& t) {
    return std::max(most.cycles - t.cycles, least.cycles + t.cycles);
  };
  const auto best = std::ranges::min_element(most.tiles, {}, then);
  if (best == most.tiles.end() || then(*best) >= most.cycles - kNone) return false;
  const Placed tile = *best;
  most.tiles.erase(best);
  most.cycles -= tile.cycles;
  least.take(tile);
  return true;
}

/// Rows of the longest tiles of units that have more than the mean go to those that have less.
void share_out(std::span<Unit> units) {
  const double mean = std::accumulate(units.begin(), units.end(), 0.,
                                      [](double sum, const Unit& u) { return sum + u.cycles; }) /
                      static_cast<double>(units.size());
  for (Unit& from : units) {
    for (Unit& to : units) {
      while (from.cycles > mean + kNone && to.cycles < mean - kNone) {
        Placed& longest = *std::ranges::max_element(from.tiles, {}, &Placed::cycles);
        const double part = std::min({longest.cycles, from.cycles - mean, mean - to.cycles});
        longest.cycles -= part;
        from.cycles -= part;
        to.take({longest.op, longest.number, part});
      }
    }
  }
}

}  // namespace

std::vector<std::vector<MatrixUnits>> dealt_out(const std::vector<TilesToPlace>& ops,
                                                std::size_t units) {
  std::array<Unit, kMostMatrixUnits> all;
  const std::span<Unit> of{all.data(), std::min(units, all.size())};
  std::vector<std::vector<MatrixUnits>> found(ops.size());
  std::size_t tiles = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    found[i].resize(static_cast<std::size_t>(ops[i].tiles));
    tiles += found[i].size();
    for (std::size_t t = 0; t < found[i].size(); ++t)
      std::ranges::min_element(of, has_less)->take({i, t, ops[i].cycles});
  }
  for (std::size_t n = 0; n < tiles && moved(of); ++n) {
  }
  share_out(of);
  for (std::size_t u = 0; u < of.size(); ++u) {
    for (const Placed& p : all[u].tiles) found[p.op][p.number][u] += p.cycles / ops[p.op].cycles;
  }
  return found;
}

}  // namespace tessera::program
