// How many elements of a load or store a thread accesses with one instruction on a GPU, as Triton's
// compiler finds it: as many as are known to lie one after the other, at an address that is known
// to be a multiple of them, under one value of the mask; 16 bytes at most.
//
// Known is what follows from the arguments that are multiples of 16 (tt.divisibility), ranges and
// integer ops. Left out: what layouts and the number of threads leave of it, hints of
// tl.max_contiguous on what is no sum of these.
#pragma once

#include <vector>

#include "program/ir.hpp"

namespace tessera::triton {

using namespace program;

/// The attribute that numbers a module's accesses, in the order of its text.
inline constexpr const char* kAccessNumber = "tessera.access";
/// Of an access, num_stages of the tl.range that it is directly in.
inline constexpr const char* kAccessStages = "tessera.stages";

struct AccessWidth {
  int width = 1;  ///< elements of an instruction of a thread, at most
  int run = 1;  ///< the same whatever the mask: elements that a layout would give a thread together
};

/// By the number of each tt.load and tt.store of the kernel.
std::vector<AccessWidth> access_widths(const Module& module, const Function& kernel);

}  // namespace tessera::triton
