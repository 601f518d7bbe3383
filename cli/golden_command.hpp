// What makes goldens, one or a set.
#pragma once

#include "cli/commands.hpp"
#include "golden/golden.hpp"

namespace tessera::cli {

/// The error model that the arguments describe; throws InputError.
ErrorModel model_of(const GoldenArguments& golden);
/// Of a kernel whose oracle is C++: throws InputError for real numbers.
ErrorModel model_of_kernel(const GoldenArguments& golden);

/// On a GPU what a build keeps in shared memory and in registers is its own affair: blocks need not
/// fit the simulated VMEM.
void lift_limits(Request& request);

/// Runs a kernel in the interpreter under request.options.error_model and compares it with its
/// reference. `diagnostics` gets what is wrong with it; the golden is empty then. `command` makes
/// it again.
golden::Golden make_golden(const KernelHandle& kernel, Request request, const std::string& command,
                           std::vector<Diagnostic>& diagnostics);

}  // namespace tessera::cli
