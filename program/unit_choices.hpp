// Branches of a program that are none for a TPU core: its compiler takes both ways where they
// compute little and do nothing else, and selects their results.
#pragma once

#include <vector>

#include "program/program.hpp"
#include "program/unit_costs.hpp"

namespace tessera::program {

/// Of a code's ops as a compiler counts them.
const std::vector<UnitOp>& ops_of(const Code& code, bool knows_narrow_masks);

/// Branches whose both ways the compiler takes, on all generations: neither has more than so many
/// vector operations, its selects among them, none multiplies matrices, moves lanes or stores. (62
/// products and sums of one register, or 31 of 31 registers, are selected; one more of each are
/// branched over.)
std::vector<const Choice*> taken_both_ways(const Program& program, const Code& code,
                                           const UnitCosts& costs);

}  // namespace tessera::program
