// Transposes of small squares of floats in vector registers.
#pragma once

#include <array>
#include <cstdint>
#include <xsimd/xsimd.hpp>

#include "memory_model/dtype.hpp"

namespace tessera {

constexpr int kSquare = 4;
using Four = xsimd::make_sized_batch<float, kSquare>::type;

/// Columns of kSquare rows.
inline std::array<Four, kSquare> transposed(const std::array<Four, kSquare>& rows) {
  const Four low02 = xsimd::zip_lo(rows[0], rows[2]), high02 = xsimd::zip_hi(rows[0], rows[2]);
  const Four low13 = xsimd::zip_lo(rows[1], rows[3]), high13 = xsimd::zip_hi(rows[1], rows[3]);
  return {xsimd::zip_lo(low02, low13), xsimd::zip_hi(low02, low13), xsimd::zip_lo(high02, high13),
          xsimd::zip_hi(high02, high13)};
}

/// kSquare rows of `from`, as floats, as columns of `to`.
template <class T>
void transpose_square(float* to, std::int64_t to_row, const T* from, std::int64_t from_row) {
  std::array<Four, kSquare> rows;
  for (int r = 0; r < kSquare; ++r) {
    alignas(sizeof(Four)) float held[kSquare];
    for (int l = 0; l < kSquare; ++l) held[l] = convert<float>(from[r * from_row + l]);
    rows[static_cast<std::size_t>(r)] = Four::load_aligned(held);
  }
  const std::array<Four, kSquare> columns = transposed(rows);
  for (int c = 0; c < kSquare; ++c)
    columns[static_cast<std::size_t>(c)].store_unaligned(to + c * to_row);
}

}  // namespace tessera
