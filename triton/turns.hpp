// Where a loop that waits is noticed: an op that this adds to the end of each scf.while, which no
// module has.
//
//   tt.turn   the values that the next turn gets
//
// A turn that gets the values of the one before, and in between the program changed no memory, does
// what that one did until somebody else changes memory. Left out: loops that carry tensors.
#pragma once

#include "program/ir.hpp"

namespace tessera::triton {

using namespace program;

void note_turns(Module& module);

}  // namespace tessera::triton
