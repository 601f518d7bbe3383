// Which tensors of a kernel are kept without their elements (program/regular.hpp): what addresses
// and masks of its loads and stores are made of, as far as every op in between can be.
#pragma once

#include <vector>

#include "program/ir.hpp"

namespace tessera::triton {

using namespace program;

/// By value.
std::vector<bool> regular_values(const Module& module, const Function& kernel);

}  // namespace tessera::triton
