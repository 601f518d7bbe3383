// Vectors rearranged: every element of the result is one of an operand's.
#pragma once

#include "program/program.hpp"

namespace tessera::program {

/// Copies elements of `width` bytes: result element (i, j, ...) is from[sum of index x stride].
void gather_strided(std::byte* to, const std::byte* from, std::int64_t width, const Shape& extents,
                    const Shape& strides);

/// A vector whose data, poison and bounds are made by `fill(to, from, width of an element)`.
template <class Fill>
Vector rearranged(const Vector& v, std::int64_t elems, std::int64_t width, Fill&& fill) {
  Vector r;
  r.data = StorageHandle(Storage::allocate(static_cast<std::size_t>(elems * width)));
  fill(r.data.bytes(), v.data.bytes(), width);
  if (v.poison) {
    r.poison = StorageHandle(Storage::allocate(static_cast<std::size_t>(elems)));
    fill(r.poison.bytes(), v.poison.bytes(), std::int64_t{1});
  }
  if (v.bound) {
    r.bound = bound_storage(elems);
    fill(r.bound.bytes(), v.bound.bytes(), std::int64_t{sizeof(float)});
  }
  return r;
}

}  // namespace tessera::program
