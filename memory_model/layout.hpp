// Shapes, and what a shape costs in a memory whose native tile is 2-D.
//
// Modelled: row-major logical layout; padded bytes under a native tile on the last two dims. On TPU
// specs the tile is (8, 128) for 32-bit, (16, 128) for 16-bit, (32, 128) for 8-bit, (64, 128) for
// 4-bit and (128, 128) for 2-bit elements (jax.experimental.pallas TPU guide, "Tiling"); 64-bit
// elements take (8, 128) tiles of their own width. A 1-D array pads to whole lines of 128 x (32 /
// bit width) elements, the unit that Pallas asks of 1-D blocks. GPU specs have no tile: padded
// bytes equal logical bytes. Arrays of few rows have tiles of few rows: compact_tile(), and
// moved_bytes.hpp for what is moved.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "memory_model/dtype.hpp"

namespace tessera {

inline constexpr int kMaxRank = 8;

/// Extents, outermost first. At most kMaxRank of them.
struct Shape {
  std::array<std::int64_t, kMaxRank> dims{};
  int rank = 0;

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> extents) {
    for (const auto e : extents) dims[static_cast<std::size_t>(rank++)] = e;
  }
  constexpr std::int64_t operator[](int i) const { return dims[static_cast<std::size_t>(i)]; }
  constexpr std::int64_t& operator[](int i) { return dims[static_cast<std::size_t>(i)]; }
  constexpr std::int64_t elems() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= (*this)[i];
    return n;
  }
  constexpr void push_back(std::int64_t e) { dims[static_cast<std::size_t>(rank++)] = e; }
  constexpr bool operator==(const Shape& o) const {
    if (rank != o.rank) return false;
    for (int i = 0; i < rank; ++i) {
      if ((*this)[i] != o[i]) return false;
    }
    return true;
  }
};

/// Row-major strides of `s`, in elements.
Shape row_major_strides(const Shape& s);

/// The index of element `linear`, counted row by row.
Shape unravel(const Shape& s, std::int64_t linear);

/// "[512, 128]"
std::string to_string(const Shape& s);
/// "(5, 0)"
std::string index_string(const std::int64_t* index, int rank);
/// "bf16[512, 128]"
std::string describe(DType d, const Shape& s);

/// Native tile of the last two dims; {1, 1} where the memory has none.
struct NativeTile {
  int sublanes = 1;
  int lanes = 1;
};

/// `sublanes32` x `lanes` is the tile of 32-bit elements (8 x 128 on every TPU so far).
constexpr NativeTile native_tile(int sublanes32, int lanes, DType d) {
  if (lanes == 1) return {1, 1};
  const int width = bit_width(d);
  return {width >= 32 ? sublanes32 : sublanes32 * (32 / width), lanes};
}

/// Elements of the unit that 1-D arrays are padded to: 512 bytes on a TPU.
constexpr std::int64_t line_elems(DType d, NativeTile tile) {
  if (tile.lanes == 1) return 1;
  return bit_width(d) >= 32 ? tile.lanes : std::int64_t{tile.lanes} * 32 / bit_width(d);
}

/// The tile that Mosaic gives an array with fewer rows than the native one: as many sublanes as
/// hold them, a power of two (infer-memref-layout; jax/_src/pallas/mosaic/tpu_info.py).
constexpr NativeTile compact_tile(NativeTile native, DType d, std::int64_t rows) {
  if (native.lanes == 1) return native;
  int sublanes = bit_width(d) >= 32 ? 1 : 32 / bit_width(d);
  while (sublanes < native.sublanes && sublanes < rows) sublanes *= 2;
  return {sublanes, native.lanes};
}

/// Bytes of a buffer of this shape when its last two dims are padded to whole native tiles.
constexpr std::int64_t padded_bytes(DType d, const Shape& s, NativeTile tile) {
  Shape p = s;
  if (p.rank >= 1) p[p.rank - 1] = (p[p.rank - 1] + tile.lanes - 1) / tile.lanes * tile.lanes;
  if (p.rank >= 2) {
    p[p.rank - 2] = (p[p.rank - 2] + tile.sublanes - 1) / tile.sublanes * tile.sublanes;
  } else if (p.rank == 1) {
    const std::int64_t line = line_elems(d, tile);
    p[0] = (s[0] + line - 1) / line * line;
  }
  return packed_bytes(d, p.elems());
}

}  // namespace tessera
