// Rows, or columns, of two tiles in turns. Made of other ops: both repeated, and a choice. On a GPU
// the kernel says `static constexpr bool exchanges = true;`.
#pragma once

#include "sim/ops/bitwise.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/where.hpp"

namespace tessera {

/// a's first row, b's first row, a's second row, ...: two (R, C) to (2 R, C).
template <TileLike A, TileLike B>
TESSERA_FN auto interleave_rows(const A& a, const B& b) {
  static_assert(std::is_same_v<typename A::Element, typename B::Element>,
                "element types differ: cast<T>() first");
  const auto even = repeat_rows<2>(a);
  return A::Backend::load(where((row_ids(even) & 1) == 0, even, repeat_rows<2>(b)));
}
/// Likewise of columns: two (R, C) to (R, 2 C).
template <TileLike A, TileLike B>
TESSERA_FN auto interleave_cols(const A& a, const B& b) {
  static_assert(std::is_same_v<typename A::Element, typename B::Element>,
                "element types differ: cast<T>() first");
  const auto even = repeat_cols<2>(a);
  return A::Backend::load(where((col_ids(even) & 1) == 0, even, repeat_cols<2>(b)));
}

}  // namespace tessera
