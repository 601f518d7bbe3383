// Arrays that tests of runs make and compare.
#pragma once

#include <cstring>

#include "memory_model/array.hpp"

namespace tessera {

/// 0, 1/8, 2/8, ... again from 0 after `modulus` elements.
inline Array counting(Shape shape, int modulus = 1000) {
  Array a(DType::f32, shape);
  for (std::int64_t i = 0; i < a.elems(); ++i)
    a.data<float>()[i] = static_cast<float>(i % modulus) / 8.f;
  return a;
}
inline bool same_bits(const Array& a, const Array& b) {
  return a.size_bytes() == b.size_bytes() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.size_bytes())) == 0;
}

}  // namespace tessera
