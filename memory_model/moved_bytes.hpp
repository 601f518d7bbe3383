// What moving a part of an array moves, under the tiles that XLA gives arrays in HBM.
//
// An array's tile has as many rows as hold the array's, a power of two: no more than 8 whatever the
// type is, but of bytes 32 where those fill the array's, and no fewer than share a word. A
// pipeline's window moves whole tiles. A copy of some rows within one tile moves those, and so does
// any copy of words that is one tile wide; another moves whole tiles. Columns are padded to 128;
// arrays of one dim to lines (layout.hpp). Held to libtpu's listings by predict/tpu_bytes.py. GPU
// specs have no tile: what moves is what there is.
#pragma once

#include "memory_model/device_spec.hpp"
#include "memory_model/ref.hpp"

namespace tessera {

/// The tile of an array in HBM.
NativeTile array_tile(const DeviceSpec& device, DType d, const Shape& array);
/// Of the part `inside` of an array, a block or what is left of one at an edge.
std::int64_t window_bytes(const DeviceSpec& device, DType d, const Shape& array,
                          const Shape& inside);
/// Of a copy to or from a part of an array, which may go on into the padding of its tiles.
std::int64_t copied_bytes(const DeviceSpec& device, const Ref& part);

}  // namespace tessera
