// The ops of a Triton kernel: those of the tt dialect, one file of ops/ per family; the rest is
// program/rules.hpp's.
#pragma once

#include "program/planner.hpp"

namespace tessera::triton {

using namespace program;

Rules shape_rules();
Rules memory_rules();
Rules atomic_rules();
Rules math_rules();
Rules combine_rules();
Rules dot_rules();
Rules control_rules();
const RuleTable& rules();

/// Else it is a scalar.
bool is_tensor(const Type& t);

}  // namespace tessera::triton
