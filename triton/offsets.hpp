// Which integers of a kernel are parts of an offset: sums and products of fewer than 64 bits that
// do nothing but make addresses and what is compared with bounds. Where one does not fit its type,
// the address is not what it says.
#pragma once

#include <vector>

#include "program/ir.hpp"

namespace tessera::triton {

using namespace program;

/// Per value. Not those that lead anywhere else, to a remainder or to data: a hash may wrap.
std::vector<bool> offset_parts(const Module& module, const Function& kernel);

}  // namespace tessera::triton
