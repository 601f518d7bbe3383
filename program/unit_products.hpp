// What the rows of a stretch's products say of their tiles of weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/program.hpp"
#include "program/unit_costs.hpp"
#include "program/unit_schedule.hpp"
#include "program/unit_stretches.hpp"
#include "program/unit_tiles.hpp"

namespace tessera::program {

/// Of a stretch's products the one that both matrix units share: of an odd number of them the last
/// that is one tile of weights. -1: none.
std::ptrdiff_t shared_product(const Program& program, const std::vector<const UnitOp*>& ops);

/// Of a product of tiles of bf16, or of f32 as bf16: how many, and registers of each to push.
struct TilesOfWeights {
  std::int64_t tiles = 0;
  std::int64_t registers = 0;
  bool of_words = false;
};
TilesOfWeights tiles_of_weights(const Program& program, const UnitOp& op);
/// In the highest precision: rounds (unit_rounds.hpp).
TilesOfWeights rounds_of_weights(const Program& program, const UnitOp& op);

/// Eight rows go through a matrix unit. In the highest precision splits and sums decide.
bool streams_rows(const std::string& row);

/// Its left side is transposed first.
bool turns_left(const Program& program, const UnitOp& op);

bool multiplies_matrices(const Program& program, const UnitOp& op);

/// Matrix units that a phase's products take, of products beside one another: one for each tile, or
/// as many as a stretch has for each of all its tiles. What one product of one tile reads comes
/// register after register, so that its time lies beside what makes them: it is as if all were its.
double units_of_tiles(std::int64_t of_phase, std::int64_t of_stretch, double units);

/// Of each op of a stretch its tiles, on four matrix units of 128 x 128. `rows`: the costs of the
/// program's rows; null: none.
std::vector<std::vector<MatrixUnits>> tiles_on_units(const Program& program,
                                                     const std::vector<const UnitOp*>& ops,
                                                     const std::vector<const UnitCost*>& rows);

/// Of a stretch's ops, where products lie beside all others that run if it does, branches between
/// them or not: an attention's that is masked behind a branch has its second product on the units
/// that its first one leaves.
struct PlacedProducts {
  std::vector<std::vector<MatrixUnits>> tiles;  ///< by op; none: there are two wide units
  std::vector<MatrixUnits> parts;               ///< by op, of two wide units
  std::int64_t products = 0;                    ///< of all those stretches
  std::int64_t all_tiles = 0;                   ///< of two products and more
  bool all_counted = true;                      ///< products of other types have no tiles
  bool one_splits = false;                      ///< the only one, in the highest precision
};
std::vector<PlacedProducts> placed_products(const Program& program,
                                            const std::vector<Stretch>& stretches,
                                            const std::vector<const UnitCost*>& rows,
                                            const UnitCosts& costs);

/// On four matrix units, of bf16, or of f32 as bf16.
std::optional<UnitSchedule::Product> product_of_tiles(const Program& program, const UnitOp& op,
                                                      const std::vector<MatrixUnits>& tiles_on,
                                                      const UnitSchedules& schedules);

}  // namespace tessera::program
