#include "program/unit_placement.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace tessera::program {

namespace {

constexpr double kMatrixUnits = 2;

struct TilesToPlace {
  double tiles = 0;
  double rows = 0;  ///< registers of each
  double left_over() const { return std::fmod(tiles, kMatrixUnits) * rows; }
};

/// Of a product that lies in tiles; else none.
TilesToPlace weight_tiles_of(const Program& program, const UnitOp& op) {
  std::int64_t quarters = 0;
  std::int64_t passes = 0;
  std::int64_t of_halves = 0;
  for (const auto& [row, n] : op.rows) {
    const std::string& name = program.unit_rows[static_cast<std::size_t>(row)];
    if (!name.starts_with("tpu.matmul") || name.find(" highest") != name.npos) continue;
    const bool wide = name.find(" wide") != name.npos;
    if (name.starts_with("tpu.matmul pass")) (wide ? of_halves : passes) += n;
    if (name.starts_with("tpu.matmul weights") && !wide) quarters += n;
  }
  if (quarters == 0 || passes == 0) return {};
  const double rows = static_cast<double>(passes) / static_cast<double>(quarters);
  constexpr double kHalves = 2;  // of a tile
  return {std::ceil(static_cast<double>(of_halves) / rows / kHalves), rows};
}

}  // namespace

std::vector<MatrixUnits> placed(const Program& program, const std::vector<const UnitOp*>& ops) {
  std::vector<TilesToPlace> products;
  double left_over = 0;
  for (const UnitOp* op : ops) {
    products.push_back(weight_tiles_of(program, *op));
    left_over += products.back().left_over();
  }
  std::vector<MatrixUnits> found;
  double at = 0;
  for (const TilesToPlace& t : products) {
    const double all = t.tiles * t.rows;
    if (all <= 0) {
      found.push_back({1 / kMatrixUnits, 1 / kMatrixUnits});
      continue;
    }
    const double of_first = std::clamp(left_over / kMatrixUnits - at, 0., t.left_over());
    const double first = ((all - t.left_over()) / kMatrixUnits + of_first) / all;
    found.push_back({first, 1 - first});
    at += t.left_over();
  }
  return found;
}

}  // namespace tessera::program
