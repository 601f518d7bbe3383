// tt.reduce and tt.scan with their combine regions written out on whole tensors, before a kernel is
// planned.
//
// A reduction combines the halves of its axis, element i with element i + n/2, until one is left; a
// scan combines with what lies 1, 2, 4, ... elements before. Triton leaves the order open; that of
// a GPU follows from its layouts. The region's ops are then ops on tensors like any others. Ops
// that this makes, which no module has:
//
//   tt.reduce.half {axis, upper}               half of a tensor along an axis
//   tt.reduce.last, tt.scan.last               the result; of a reduction without its axis
//   tt.scan.shift  {axis, distance, reverse}   element i - distance; the element itself before that
//   tt.scan.keep   {axis, distance, reverse}   of a, b: a in the first `distance` elements
//
// and, of a kernel that keeps error bounds:
//
//   tt.reduce.any_order {axis}                 of x, r: r, the sum of x along an axis in some order
//   tt.scan.any_order   {axis, reverse}        of x, r: r, the sums of x up to each element
//   tt.combine.open                            its operand, of which the order decides
#pragma once

#include "program/ir.hpp"

namespace tessera::triton {

using namespace program;

/// `bounded`: the kernel keeps error bounds. Throws InputError[bad-module] of what is no reduction
/// or scan.
void expand_combines(Module& module, bool bounded = false);

}  // namespace tessera::triton
