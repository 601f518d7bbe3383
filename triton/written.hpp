// Which of a kernel's pointers it may write through: what is only read needs no watching for races.
//
// A value comes from a pointer if it is computed from it in any way; a pointer that is loaded, or
// made of an integer from elsewhere, may be any.
#pragma once

#include <vector>

#include "program/ir.hpp"

namespace tessera::triton {

using namespace program;

/// Per argument of the kernel.
std::vector<bool> written_arguments(const Module& module, const Function& kernel);

}  // namespace tessera::triton
