// What a run of a C++ kernel takes by the units of a TPU core (program/unit_count.hpp), as the ops
// of its TPU build ask for them (--timing units, and where none is given).
#pragma once

#include "cli/timing.hpp"

namespace tessera::cli {

/// Counts the kernel's TPU build for what was run, and puts its timeline and what its lines cost in
/// the place of the kernel's. Returns why there is none, and changes nothing then; "": there is.
/// Where data decides what the build does it is run, if units are asked for by name. Throws
/// InputError where the build's library is not there. Called by several threads at once.
std::string add_unit_timing(const KernelHandle& kernel, const Request& request,
                            const Timing& timing, report::RunReport& report);

}  // namespace tessera::cli
