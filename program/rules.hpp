// Rules of MLIR's own dialects, for the table of any front end, and those of its ops that a dialect
// of the front end has under another name.
#pragma once

#include "program/planner.hpp"

namespace tessera::program {

Rules arith_rules();
Rules math_rules();
Rules control_rules();  ///< scf and cf
Rules branch_rules();   ///< between the blocks of a function
Rules vector_rules();   ///< without loads and stores: whose memory it is, the front end knows

void plan_assert(Planner& p, const Operation& op);
/// Of one width.
void plan_bitcast(Planner& p, const Operation& op);
/// Between element types, of integers with sign.
void plan_conversion(Planner& p, const Operation& op);
/// The result is the operand.
void plan_same(Planner& p, const Operation& op);
void plan_transpose(Planner& p, const Operation& op);
/// The same; `attribute` has the dims of the operand in the order of the result.
void plan_permutation(Planner& p, const Operation& op, const char* attribute);

}  // namespace tessera::program
