#include "program/unit_placement.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace tessera::program {

namespace {

constexpr std::size_t kUnits = 2;

bool leaves_over(const WideProduct& p) { return p.tiles % 2 == 1; }

/// Of a product the first unit's part, of which each has as many of the other tiles.
double of_all(const WideProduct& p, double of_left_over) {
  if (!leaves_over(p)) return 0.5;
  const auto tiles = static_cast<double>(p.tiles);
  return ((tiles - 1) / kUnits + of_left_over) / tiles;
}

/// Cycles of a tile's rows on a unit.
double rows_take(const WideProduct& p) {
  if (!p.splits) return p.passes_take();
  return static_cast<double>(WideProduct::kSplitRounds) *
         std::max(p.passes_take(), p.pushes_take());
}

/// Its rounds lie in either unit by turns.
bool by_turns(const WideProduct& p, const UnitCosts& costs) {
  return p.splits && (p.apart || !costs.schedules || !costs.schedules->adds_up);
}

/// When a unit's tiles have passed, one after another.
struct UnitPasses {
  double first = 0;  ///< of the last tile: pushes of the next may begin
  double end = 0;

  double behind(const WideProduct& p) const { return std::max(end, first + p.pushes_take()); }
  void pass(const WideProduct& p, double part) {
    if (!p.splits) return pass_once(p, part);
    const long rounds = std::lround(part * static_cast<double>(WideProduct::kSplitRounds));
    for (long r = 0; r < rounds; ++r) pass_once(p, 1);
  }
  void pass_once(const WideProduct& p, double part) {
    first = behind(p);
    end = first + part * p.passes_take();
  }
};

}  // namespace

std::vector<MatrixUnits> placed(const Program& program, const std::vector<const UnitOp*>& ops,
                                const UnitCosts& costs) {
  std::vector<std::optional<WideProduct>> products;
  std::optional<std::size_t> last;  // of which a tile is left over
  for (const UnitOp* op : ops) {
    products.push_back(wide_product(program, *op, costs));
    if (products.back() && by_turns(*products.back(), costs)) products.back().reset();
    if (products.back() && leaves_over(*products.back())) last = products.size() - 1;
  }
  std::array<UnitPasses, kUnits> units{};
  std::vector<MatrixUnits> found;
  for (std::size_t i = 0; i < products.size(); ++i) {
    if (!products[i]) {
      found.push_back({0.5, 0.5});
      continue;
    }
    const WideProduct& p = *products[i];
    for (std::int64_t t = 1; t < p.tiles; t += 2)
      for (UnitPasses& u : units) u.pass(p, 1);
    double of_first = units[1].end < units[0].end ? 0 : 1;
    if (i == last) {
      const double more = (units[1].behind(p) - units[0].behind(p)) / rows_take(p);
      of_first = std::clamp((1 + more) / kUnits, 0., 1.);
    }
    if (leaves_over(p)) {
      if (of_first > 0) units[0].pass(p, of_first);
      if (of_first < 1) units[1].pass(p, 1 - of_first);
    }
    const double part = of_all(p, of_first);
    found.push_back({part, 1 - part});
  }
  return found;
}

double of_left_over(const WideProduct& p, const MatrixUnits& on) {
  if (!leaves_over(p)) return 0;
  const auto tiles = static_cast<double>(p.tiles);
  return std::clamp(on[0] * tiles - (tiles - 1) / kUnits, 0., 1.);
}

}  // namespace tessera::program
