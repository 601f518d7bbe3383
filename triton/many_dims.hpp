// Tensors of more dims than kMaxRank, which tl.sort makes of more than 256 elements: the importer
// has their elements in one dim (Type::text has the dims). Ops that look at dims get a view of
// these elements in which every run of dims that they treat alike is one.
#pragma once

#include "program/ir.hpp"

namespace tessera::triton {

using namespace program;

/// Throws InputError[bad-module] of an op for which the runs are too many, or that nobody wrote
/// here.
void regroup_many_dims(Module& module);

}  // namespace tessera::triton
