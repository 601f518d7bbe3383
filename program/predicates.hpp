// arith.cmpi of two numbers that are known.
#pragma once

#include <cstdint>
#include <optional>

namespace tessera::program {

/// By predicate 0 to 5: eq, ne, slt, sle, sgt, sge; none of unsigned ones.
inline std::optional<bool> compared(std::int64_t predicate, std::int64_t a, std::int64_t b) {
  switch (predicate) {
    case 0:
      return a == b;
    case 1:
      return a != b;
    case 2:
      return a < b;
    case 3:
      return a <= b;
    case 4:
      return a > b;
    case 5:
      return a >= b;
    default:
      return std::nullopt;
  }
}

}  // namespace tessera::program
