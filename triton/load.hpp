// Reading Triton kernels: TTIR in MLIR's generic form, as Triton's front end makes it for a GPU
// (after make_ttir), with locations. Read by tessera-import (program/importer.hpp). Errors:
// InputError, one line.
#pragma once

#include <string>

#include "program/ir.hpp"

namespace tessera::triton {

using namespace program;

/// `name` is for messages.
Module load_module(const std::string& bytes, const std::string& name);
Module load_module_file(const std::string& path);

}  // namespace tessera::triton
