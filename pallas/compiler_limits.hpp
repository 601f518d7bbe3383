// What the TPU's compiler refuses of a module, said before it runs.
//
// Asked of libtpu 0.0.42 with hundreds of small kernels on five generations (pallas/COMPILER.md has
// the agreement); its words are cited. Modelled: element types that ops have code for, products,
// gathers, rotations, strides, and the alignment of loads, stores and copies at offsets that only
// the run knows. Left out: what its register layouts decide (most reshapes and relayouts),
// registers that it spills. A program of SparseCores has other vectors, and other limits: it is not
// looked at.
#pragma once

#include <vector>

#include "program/program.hpp"

namespace tessera::pallas {

using namespace program;

/// In the order of their ops.
std::vector<Refusal> compiler_limits(const Module& module);

}  // namespace tessera::pallas
