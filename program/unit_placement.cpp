#include "program/unit_placement.hpp"

#include <algorithm>
#include <functional>
#include <optional>

namespace tessera::program {

namespace {

constexpr double kMatrixUnits = 2;

bool leaves_over(const WideProduct& p) { return p.tiles % 2 == 1; }

/// Of a product the first unit's part, of which each has as many of the other tiles.
double of_all(const WideProduct& p, double of_left_over) {
  if (!leaves_over(p)) return 1 / kMatrixUnits;
  const auto tiles = static_cast<double>(p.tiles);
  return ((tiles - 1) / kMatrixUnits + of_left_over) / tiles;
}

}  // namespace

std::vector<MatrixUnits> placed(const Program& program, const std::vector<const UnitOp*>& ops,
                                const UnitCosts& costs) {
  std::vector<std::optional<WideProduct>> products;
  std::vector<std::size_t> written;  // those of which a tile is left over
  for (const UnitOp* op : ops) {
    products.push_back(wide_product(program, *op, costs));
    if (products.back() && leaves_over(*products.back())) written.push_back(products.size() - 1);
  }
  const auto load = [&](std::size_t i) {
    return products[i]->pushes_take() + products[i]->passes_take();
  };
  std::vector<std::size_t> order = written;
  std::ranges::stable_sort(order, std::greater{}, load);
  std::vector<std::optional<double>> of_first(products.size());  // of what is left over
  MatrixUnits loads{};
  for (const std::size_t i : order) {
    if (i == order.back()) {
      const double more = (loads[1] - loads[0]) / products[i]->passes_take();
      of_first[i] = std::clamp((1 + more) / kMatrixUnits, 0., 1.);
      continue;
    }
    // Of two that have as much to do the one that does not have the product before.
    const auto here = std::ranges::find(written, i);
    const bool behind_first = here != written.begin() && of_first[*(here - 1)] == 1;
    const bool first = loads[0] < loads[1] || (loads[0] == loads[1] && !behind_first);
    of_first[i] = first ? 1 : 0;
    loads[first ? 0 : 1] += load(i);
  }
  std::vector<MatrixUnits> found;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const double part =
        products[i] ? of_all(*products[i], of_first[i].value_or(0)) : 1 / kMatrixUnits;
    found.push_back({part, 1 - part});
  }
  return found;
}

double of_left_over(const WideProduct& p, const MatrixUnits& on) {
  if (!leaves_over(p)) return 0;
  const auto tiles = static_cast<double>(p.tiles);
  return std::clamp(on[0] * tiles - (tiles - 1) / kMatrixUnits, 0., 1.);
}

}  // namespace tessera::program
