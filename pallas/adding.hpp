// Sums element by element: what SparseCores add to memory.
#pragma once

#include "memory_model/dma.hpp"
#include "program/elements.hpp"
#include "program/memory.hpp"

namespace tessera::pallas {

struct AddInPlace {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a + b;
    } else {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    }
  }
};

/// a + b; integers wrap. Null if elements of that type cannot be added.
inline Adding adding(DType d) {
  Adding kernel = nullptr;
  const auto found = [&](auto tag) {
    using T = typename decltype(tag)::type;
    kernel = program::run_elements<AddInPlace, T, T>;
  };
  program::with_float(d, found);
  program::with_integer(d, found);
  return kernel;
}

/// Stores a vector, or adds it to what is there; `add`: null to overwrite.
void store_or_add(program::Exec& x, const program::Vector& v, const Ref& to, Adding add);

}  // namespace tessera::pallas
