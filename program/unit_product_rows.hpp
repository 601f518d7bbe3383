// What a product asks of a TPU core's matrix units: rows of a table of costs (units.hpp).
//
// Passes are of 8 rows and a tile of weights, 128 x 128, "wide" ones of 256 x 256: each
// generation's costs say what a pass of either width takes. Extents and tiles that are known to be
// 0 are left out where the compiler leaves them out.
#pragma once

#include "program/units.hpp"

namespace tessera::program {

/// Of `tpu.matmul`.
UnitRows product_rows(const Module& module, const Operation& op, const KnownValues& known);

}  // namespace tessera::program
