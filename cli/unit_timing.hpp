// What a run of a C++ kernel takes by the units of a TPU core (program/unit_costs.hpp), as the ops
// of its TPU build ask for them (--timing units).
#pragma once

#include "cli/commands.hpp"

namespace tessera::cli {

/// Counts the kernel's TPU build for what was run, and puts its timeline and what its lines cost in
/// the place of the kernel's. Why there is none is said in the report. Throws InputError where the
/// build's library is not there.
void add_unit_timing(const KernelHandle& kernel, const Request& request,
                     const RunArguments& arguments, report::RunReport& report);

}  // namespace tessera::cli
