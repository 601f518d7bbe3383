// Branches of a program that are none for a TPU core: its compiler takes both ways where they do
// little, and selects their results. Copies, waits for them, and loads and stores of scalars are
// issued whichever way it goes, and by a predicate have no effect.
#pragma once

#include <vector>

#include "program/program.hpp"
#include "program/unit_costs.hpp"

namespace tessera::program {

/// Of a code's ops as a compiler counts them.
const std::vector<UnitOp>& ops_of(const Code& code, bool knows_narrow_masks);

/// Branches whose both ways the compiler takes, on all generations: neither has more than so many
/// operations, its selects among them, none multiplies matrices, moves lanes, stores vectors or has
/// a loop. (62 products and sums of one register, or 31 of 31 registers, are selected; one more of
/// each are branched over. Copies of pages at loaded indices into a buffer's slot: 20 of a v4, 12
/// of a v5e, 15 of others; of an array's first pages 63 and more, 21, 31.)
std::vector<const Choice*> taken_both_ways(const Program& program, const Code& code,
                                           const UnitCosts& costs);

}  // namespace tessera::program
