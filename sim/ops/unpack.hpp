// Fields of words: 4-bit and 2-bit numbers, bytes, that lie packed in integers of 32 bits, as
// quantised weights do. Made of other ops: words repeated, and shifts. On a GPU the kernel says
// `static constexpr bool exchanges = true;`; rows of words of an input are taken apart there where
// they are wanted (cuda/codes.hpp).
#pragma once

#include "sim/ops/cast.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/shift.hpp"
#include "sim/ops/sub.hpp"

namespace tessera {

namespace detail {
/// Field `place` of each word, from the lowest on: as an unsigned number from words of u32, with
/// its sign from words of i32.
template <int kBits, class A, class Place>
TESSERA_FN auto field(const A& words, const Place& place) {
  using T = typename A::Element;
  static_assert(sizeof(T) == 4 && std::is_integral_v<T>, "fields are those of u32 and i32");
  // Its highest bit to the top, and back.
  const auto above = cast<T>(place * -kBits + (32 - kBits));
  return A::Backend::load((words << above) >> (32 - kBits));
}
}  // namespace detail

/// The 32 / bits fields of each word, the lowest first, one below the other: (R, C) to (n R, C).
template <int kBits, TileLike A>
TESSERA_FN auto unpack_rows(const A& words) {
  static_assert(kBits > 0 && 32 % kBits == 0, "fields of 1, 2, 4, 8 or 16 bits");
  if constexpr (requires { A::Backend::template unpack_rows<kBits>(words); }) {
    return A::Backend::template unpack_rows<kBits>(words);
  } else {
    const auto all = repeat_rows<32 / kBits>(words);
    return detail::field<kBits>(all, row_ids(all) & (32 / kBits - 1));
  }
}
/// Side by side: (R, C) to (R, n C).
template <int kBits, TileLike A>
TESSERA_FN auto unpack_cols(const A& words) {
  static_assert(kBits > 0 && 32 % kBits == 0, "fields of 1, 2, 4, 8 or 16 bits");
  const auto all = repeat_cols<32 / kBits>(words);
  return detail::field<kBits>(all, col_ids(all) & (32 / kBits - 1));
}

}  // namespace tessera
