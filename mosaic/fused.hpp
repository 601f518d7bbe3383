// a * b + c of f32, rounded once, from operations that every TPU has: none of them has a fused
// multiply-add, and its compiler refuses math.fma.
//
// By integers, bit for bit what std::fma gives (tests/mosaic/emit_test.cpp), a NaN's payload aside:
// about 150 operations an element. Bounds for goldens do not follow bits (sim/bounds/): a golden of
// such a module is made with `--no-fused`, which is a product and a sum.
#pragma once

#include "mosaic/tile.hpp"

namespace tessera::mosaic {

/// Of f32 tiles of one shape.
AnyTile fused_multiply_add(const AnyTile& a, const AnyTile& b, const AnyTile& c);

}  // namespace tessera::mosaic
