// On which of two matrix units the products of a stretch of code lie.
//
// A tile of weights lies in one unit, for all rows that are multiplied by it; a second one lies in
// the other. A tile that is left over is given to the unit whose rows have passed first, in the
// order of the program: weights are pushed while rows pass the tile before, so that a unit's first
// tile takes its pushes and its passes, others their passes alone. The last one is both units', as
// much of it as makes both as long:
//
//   one product of one tile           each unit has half of its rows
//   two, one after the other          a unit each: each takes twice as long as alone
//   three                             the last is shared
//   attention over four blocks        S0 on the first, P0 v, S1, S2, S3 on the other, then P1 v,
//   of keys                           P2 v and 7/8 of P3 v on the first
//
// By listings of chains of one to five products and of attention on a v6e and a v7x; of four narrow
// units unit_tiles.hpp has what is known. In the highest precision a v6e
// gives both half of a product's rounds (unit_rounds.hpp), a v7x of two tiles beside one another.
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
