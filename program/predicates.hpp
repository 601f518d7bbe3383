// What the predicates of arith.cmpi say.
#pragma once

#include <cstdint>
#include <optional>

namespace tessera::program {

/// By predicate 0 to 5: eq, ne, slt, sle, sgt, sge.
template <class T>
constexpr bool signed_holds(std::int64_t predicate, T a, T b) {
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
    default:
      return a >= b;
  }
}
/// None of unsigned predicates.
inline std::optional<bool> compared(std::int64_t predicate, std::int64_t a, std::int64_t b) {
  if (predicate < 0 || predicate > 5) return std::nullopt;
  return signed_holds(predicate, a, b);
}

}  // namespace tessera::program
