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
  using Two = xsimd::batch<double, Four::arch_type>;
  const auto pairs = [](const Four& x) { return xsimd::bitwise_cast<Two>(x); };
  const auto fours = [](const Two& x) { return xsimd::bitwise_cast<Four>(x); };
  const Two low01 = pairs(xsimd::zip_lo(rows[0], rows[1]));
  const Two low23 = pairs(xsimd::zip_lo(rows[2], rows[3]));
  const Two high01 = pairs(xsimd::zip_hi(rows[0], rows[1]));
  const Two high23 = pairs(xsimd::zip_hi(rows[2], rows[3]));
  return {fours(xsimd::zip_lo(low01, low23)), fours(xsimd::zip_hi(low01, low23)),
          fours(xsimd::zip_lo(high01, high23)), fours(xsimd::zip_hi(high01, high23))};
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
