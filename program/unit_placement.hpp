// On which of two matrix units the products of a stretch of code lie.
//
// A tile of weights lies in one unit, for all rows that are multiplied by it; a second one lies in
// the other. Tiles that are left over are given to the unit that has less to do, those that take
// longest first (weights that are turned take twice as long to push); the last one is both units',
// as much of it as makes both as long:
//
//   one product of one tile           each unit has half of its rows
//   two, one after the other          a unit each: each takes twice as long as alone
//   three                             the last is shared
//   four, first and third turned      first and fourth, second and third
//
// By listings of chains of one to five products on a v6e and a v7x; of four narrow units
// unit_tiles.hpp has what is known. Products in the highest precision are given to both (or have
// rows of costs of their own).
#pragma once

#include <cstddef>
#include <vector>

#include "program/program.hpp"
#include "program/unit_costs.hpp"
#include "program/unit_tiles.hpp"
#include "program/unit_wide.hpp"

namespace tessera::program {

/// Of each op of a stretch.
std::vector<MatrixUnits> placed(const Program& program, const std::vector<const UnitOp*>& ops,
                                const UnitCosts& costs);

/// Of a product that is placed so, the first unit's part of the tile that is left over.
double of_left_over(const WideProduct& product, const MatrixUnits& on);

}  // namespace tessera::program
