// tessera's own kernels, each compiled into a library of its own (cli/CMakeLists.txt) that lies
// beside the program and is loaded when the kernel is asked for: `./tessera run K` compiles K
// alone.
#pragma once

#include "cli/registry.hpp"

namespace tessera::cli {

/// Of kernels/entries/. To find one that was not compiled throws InputError[not-built].
const Kernels& loaded_kernels();

}  // namespace tessera::cli
