// Entry I of kernels/all.hpp as a handle. Each is compiled in a file of its own
// (cli/CMakeLists.txt), so that a change to one kernel compiles one kernel.
#pragma once

#include <cstddef>

#include "cli/registry.hpp"

namespace tessera::cli {

template <std::size_t I>
KernelHandle builtin_kernel();

}  // namespace tessera::cli
