// What a vector takes of a TPU core's registers of 8 x 128 words, in the default layout of its
// shape.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "program/ir.hpp"

namespace tessera::program {

inline constexpr std::int64_t kSublanes = 8;
inline constexpr std::int64_t kLanes = 128;

inline std::int64_t ceil_to(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

/// So many times a part of 1, rounded up.
inline std::int64_t share_of(std::int64_t n, double part) {
  constexpr double kRounding = 1e-9;
  return std::llround(std::ceil(static_cast<double>(n) * part - kRounding));
}

/// Rows of a register.
inline std::int64_t rows_of(DType d) {
  return d == DType::boolean ? kSublanes : kSublanes * std::max(1, 32 / bit_width(d));
}

struct Tiles {
  std::int64_t outer = 1;  ///< of leading dims
  std::int64_t rows = 1;   ///< elements
  std::int64_t columns = 1;
  std::int64_t down = 1;  ///< registers
  std::int64_t across = 1;
  std::int64_t packed = 1;  ///< of a row alone: its columns may fill all sublanes
  std::int64_t all() const { return outer * down * across; }
};
Tiles tiles_of(const Shape& s, DType d);

/// Registers of a vector; a mask's are those of 32-bit values.
std::int64_t registers_of(const Shape& shape, DType dtype);

/// Less than 32 bits, and no mask.
bool is_narrow(DType dtype);

/// Elements of a register along a dim of such a vector.
std::int64_t register_extent(const Shape& shape, int dim, DType dtype);

}  // namespace tessera::program
