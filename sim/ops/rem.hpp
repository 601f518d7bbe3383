#pragma once

#include "sim/ops/bitwise.hpp"

namespace tessera {

/// What a division of integers leaves, with a's sign; a if b is 0.
struct Rem {
  static constexpr OpInfo info{
      .name = "rem", .math = "a % b", .mosaic = "arith.remsi", .arity = 2, .max_ulp = 0};

  template <std::integral T>
  TESSERA_FN static constexpr T apply(T a, T b) {
    // -1 leaves nothing, and the least integer has no quotient by it.
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return T(0);
    }
    return b == 0 ? a : static_cast<T>(a % b);
  }
};

template <class A, class B>
requires Operands<A, B> TESSERA_FN auto operator%(const A& a, const B& b) {
  detail::check_integers<A, B>();
  return BackendOf<A, B>::template map<Rem>(a, b);
}

}  // namespace tessera
