// The command line over kernels: tessera's own, or a user's (`tessera new`).
#pragma once

#include "cli/handle.hpp"
#include "cli/registry.hpp"

namespace tessera::cli {

/// Runs argv. Exit codes: 0 all well, 1 the kernel is wrong, 2 bad usage or input, 3 unsupported or
/// unmodelled, 70 internal.
int run_app(int argc, char** argv, const Kernels& kernels);

}  // namespace tessera::cli
