// The ops of a Triton kernel: those of the tt dialect, one file of ops/ per family; the rest is
// program/rules.hpp's.
#pragma once

#include "program/planner.hpp"
#include "sim/numerics/profile.hpp"

namespace tessera::triton {

using namespace program;

Rules shape_rules();
Rules memory_rules();
Rules atomic_rules();
Rules math_rules();
Rules combine_rules();
Rules dot_rules();
Rules dot_scaled_rules();
Rules control_rules();
Rules inline_asm_rules();
Rules gpu_rules();  ///< those that Profile::gpu_hopper has in place of others
const RuleTable& rules(Profile profile = Profile::exact);

/// A function of libdevice (tt.extern_elementwise), correctly rounded or nearly so.
void plan_libdevice(Planner& p, const Operation& op);
/// By its name without "__nv_": whether a GPU's gives other bits, if only of subnormal numbers.
bool differs_on_gpus(const std::string& name);

/// Else it is a scalar.
bool is_tensor(const Type& t);

}  // namespace tessera::triton
