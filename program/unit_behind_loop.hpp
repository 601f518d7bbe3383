// What lies behind a loop and is begun in it. While a turn waits for a product the TPU's compiler
// issues, by the predicate that it is the last one, what follows neither from the loop nor from an
// end of a phase: each turn takes its bundles.
//
//   for t: u[t] += lower[t] @ u        the loads and pushes of the second product's keys
//   p = queries @ keys^T
//   acc += where(p) @ u                waits for p, and for u
#pragma once

#include <cstddef>
#include <vector>

#include "program/program.hpp"
#include "program/unit_costs.hpp"
#include "program/unit_stretches.hpp"

namespace tessera::program {

/// Whether all of a loop's code is the stretch with this number, and others without ops.
bool is_whole_loop(const Code& code, const std::vector<Stretch>& all, std::size_t number);

/// Bundles of the next stretch that each turn of such a loop takes besides its own; 0: it
/// multiplies no matrices, or waits for what is outside. `rows`: the costs of the program's rows,
/// null: none.
double begun_in_loop(const Program& program, const Stretch& loop, const Stretch& next,
                     const std::vector<const UnitCost*>& rows, const UnitCosts& costs);

}  // namespace tessera::program
