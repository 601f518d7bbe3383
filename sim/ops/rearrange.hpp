// Elements moved to other places, in ways that have a name: no free permutations, for which a TPU
// has no single operation. On a GPU they go through shared memory, as those of a column do
// (sim/ops/reduce.hpp): the kernel says `static constexpr bool exchanges = true;`.
#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// Side by side: (R, A) and (R, B) to (R, A + B).
struct ConcatCols {
  static constexpr OpInfo info{.name = "concat_cols",
                               .math = "a[i,j], or b[i, j - cols of a]",
                               .mosaic = "tpu.concatenate",
                               .arity = 2,
                               .max_ulp = 0,
                               .flops = 0};
};
/// One below the other: (A, C) and (B, C) to (A + B, C).
struct ConcatRows {
  static constexpr OpInfo info{.name = "concat_rows",
                               .math = "a[i,j], or b[i - rows of a, j]",
                               .mosaic = "tpu.concatenate",
                               .arity = 2,
                               .max_ulp = 0,
                               .flops = 0};
};
/// Columns moved to the right by n, those that leave come in at the left.
struct RollCols {
  static constexpr OpInfo info{.name = "roll_cols",
                               .math = "a[i, (j - n) mod cols]",
                               .mosaic = "tpu.dynamic_rotate",
                               .arity = 1,
                               .max_ulp = 0,
                               .flops = 0};
};
/// Rows moved down by n, those that leave come in at the top.
struct RollRows {
  static constexpr OpInfo info{.name = "roll_rows",
                               .math = "a[(i - n) mod rows, j]",
                               .mosaic = "tpu.dynamic_rotate",
                               .arity = 1,
                               .max_ulp = 0,
                               .flops = 0};
};
/// Each column n times, side by side: (R, C) to (R, n C).
struct RepeatCols {
  static constexpr OpInfo info{.name = "repeat_cols",
                               .math = "a[i, j / n]",
                               .mosaic = "vector.broadcast",
                               .arity = 1,
                               .max_ulp = 0,
                               .flops = 0};
};
/// Each row n times, one below the other: (R, C) to (n R, C).
struct RepeatRows {
  static constexpr OpInfo info{.name = "repeat_rows",
                               .math = "a[i / n, j]",
                               .mosaic = "vector.broadcast",
                               .arity = 1,
                               .max_ulp = 0,
                               .flops = 0};
};
/// One of the n equal parts of the columns, or of the rows.
struct SplitCols {
  static constexpr OpInfo info{.name = "split_cols",
                               .math = "a[i, j + k cols / n]",
                               .mosaic = "vector.extract_strided_slice",
                               .arity = 1,
                               .max_ulp = 0,
                               .flops = 0};
};
struct SplitRows {
  static constexpr OpInfo info{.name = "split_rows",
                               .math = "a[i + k rows / n, j]",
                               .mosaic = "vector.extract_strided_slice",
                               .arity = 1,
                               .max_ulp = 0,
                               .flops = 0};
};

template <TileLike A, TileLike B>
TESSERA_FN auto concat_cols(const A& a, const B& b) {
  static_assert(std::is_same_v<typename A::Element, typename B::Element>,
                "element types differ: cast<T>() first");
  return A::Backend::template concat<false>(a, b);
}
template <TileLike A, TileLike B>
TESSERA_FN auto concat_rows(const A& a, const B& b) {
  static_assert(std::is_same_v<typename A::Element, typename B::Element>,
                "element types differ: cast<T>() first");
  return A::Backend::template concat<true>(a, b);
}
/// n may be negative, and of any size; it is known when the kernel is built.
template <TileLike A>
TESSERA_FN auto roll_cols(const A& a, int n) {
  return A::Backend::template roll<false>(a, n);
}
template <TileLike A>
TESSERA_FN auto roll_rows(const A& a, int n) {
  return A::Backend::template roll<true>(a, n);
}

template <int kTimes, TileLike A>
TESSERA_FN auto repeat_cols(const A& a) {
  static_assert(kTimes > 0, "a column is repeated once or more");
  return A::Backend::template repeat<false, kTimes>(a);
}
template <int kTimes, TileLike A>
TESSERA_FN auto repeat_rows(const A& a) {
  static_assert(kTimes > 0, "a row is repeated once or more");
  return A::Backend::template repeat<true, kTimes>(a);
}

/// The parts of a tile, in order: auto [low, high] = split_cols<2>(x).
template <class Tile, int kParts>
struct Parts;
template <class Tile>
struct Parts<Tile, 2> {
  Tile first;
  Tile second;
};
template <class Tile>
struct Parts<Tile, 4> {
  Tile first;
  Tile second;
  Tile third;
  Tile fourth;
};

namespace detail {
template <int kParts, bool kRows, class A>
TESSERA_FN auto split(const A& a) {
  static_assert(kParts == 2 || kParts == 4, "split into two or four parts");
  using To = typename A::Backend;
  const auto first = To::template part<kRows, kParts, 0>(a);
  const auto second = To::template part<kRows, kParts, 1>(a);
  using Tile = std::remove_const_t<decltype(first)>;
  if constexpr (kParts == 2)
    return Parts<Tile, 2>{first, second};
  else
    return Parts<Tile, 4>{first, second, To::template part<kRows, kParts, 2>(a),
                          To::template part<kRows, kParts, 3>(a)};
}
}  // namespace detail

template <int kParts, TileLike A>
TESSERA_FN auto split_cols(const A& a) {
  return detail::split<kParts, false>(a);
}
template <int kParts, TileLike A>
TESSERA_FN auto split_rows(const A& a) {
  return detail::split<kParts, true>(a);
}

}  // namespace tessera
