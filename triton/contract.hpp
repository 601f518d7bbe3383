// Products and sums as a GPU's compiler fuses them, before a kernel is planned.
//
// Where Triton compiles for a GPU, LLVM makes one fused multiply-add of a product (of f32, bf16 or
// f16) and the sum or difference that takes it, in one basic block: elements are computed one by
// one, so broadcasts and other changes of shape between the two do not matter. A product that
// others take too is computed beside the fused one. Of a sum or difference of two products the one
// with fewer uses is fused, else the first; LLVM sorts the operands of sums before, as far as we
// can tell by what they are computed from. Ops with regions end a basic block. The op that this
// makes, which no module has:
//
//   tt.contracted {form}   0: a b + c, 1: c - a b, 2: a b - c, 3: -a b - c, rounded once
//
// Triton's option enable_fp_fusion, on unless it is said otherwise until Triton 3.9, turns it off.
// Learnt from LLVM's rules and from what an H200 computed (tests/triton/CORPUS.md). Not seen:
// products in a loop that LLVM unrolls, and in the sums of a thread's own part of a reduction.
#pragma once

#include "program/ir.hpp"

namespace tessera::triton {

using namespace program;

void contract(Module& module);

}  // namespace tessera::triton
