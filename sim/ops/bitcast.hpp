#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

/// The same bits as another type of as many.
struct Bitcast {
  static constexpr OpInfo info{.name = "bitcast",
                               .math = "the bits of a as T",
                               .mosaic = "arith.bitcast",
                               .arity = 1,
                               .max_ulp = 0,
                               .flops = 0};
};

template <class To, TileLike A>
TESSERA_FN auto bitcast(const A& a) {
  using From = typename A::Element;
  static_assert(bit_width(kDTypeOf<To>) == bit_width(kDTypeOf<From>) && sizeof(To) == sizeof(From),
                "bitcast keeps the number of bits");
  static_assert(!std::is_same_v<To, bool> && !std::is_same_v<From, bool>, "a mask has no bits");
  return A::Backend::template bitcast<To>(a);
}

}  // namespace tessera
