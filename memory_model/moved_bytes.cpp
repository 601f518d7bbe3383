#include "memory_model/moved_bytes.hpp"

#include <algorithm>

namespace tessera {

namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

/// Rows that `n` rows from row `first` of an array move.
std::int64_t copied_rows(std::int64_t n, std::int64_t first, std::int64_t of, std::int64_t tile,
                         std::int64_t packed) {
  const bool in_one_tile = n < of && first % tile + n <= tile;
  return round_up(n, in_one_tile ? packed : tile);
}

}  // namespace

NativeTile array_tile(const DeviceSpec& device, DType d, const Shape& array) {
  const std::int64_t rows = array.rank > 1 ? array[array.rank - 2] : 1;
  const NativeTile native = native_tile(device.sublanes32, device.lanes, d);
  if (bit_width(d) == 8 && rows % native.sublanes == 0) return native;
  return compact_tile(native_tile(device.sublanes32, device.lanes, DType::i32), d, rows);
}

std::int64_t window_bytes(const DeviceSpec& device, DType d, const Shape& array,
                          const Shape& inside) {
  return padded_bytes(d, inside, array_tile(device, d, array));
}

std::int64_t copied_bytes(const DeviceSpec& device, const Ref& part) {
  const Buffer& array = part.buffer();
  const Shape& extents = part.extents();
  const DType d = part.dtype();
  const int rank = array.shape.rank;
  if (device.lanes == 1 || rank < 2 || extents.rank == 0 || d != array.dtype || !part.plain())
    return window_bytes(device, d, extents, extents);
  const NativeTile tile = array_tile(device, d, array.shape);
  const std::int64_t packed = std::max(1, 32 / bit_width(d));
  const std::int64_t rows = array.shape[rank - 2];
  const std::int64_t row = array.shape[rank - 1];
  const int last = extents.rank - 1;
  Shape moved = extents;
  moved[last] = round_up(extents[last], tile.lanes);
  int along = last - 1;
  while (along >= 0 && part.strides()[along] != row) --along;
  // Rows by themselves take along those that share their words.
  if (along < 0 || rows == 1) return packed_bytes(d, moved.elems() * packed);
  if (packed > 1 || moved[last] > tile.lanes)
    moved[along] =
        copied_rows(extents[along], part.offset() / row % rows, rows, tile.sublanes, packed);
  return packed_bytes(d, moved.elems());
}

}  // namespace tessera
