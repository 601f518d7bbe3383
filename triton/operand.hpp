// Operands and results of rules that take scalars and tensors alike: as vectors, a scalar of one
// element in 8 bytes.
#pragma once

#include <cstring>

#include "program/planner.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

struct Operand {
  bool tensor = false;
  int slot = -1;  ///< -1: there is none

  Vector get(const Exec& x) const {
    if (slot < 0) return {};
    if (tensor) return x.vectors[static_cast<std::size_t>(slot)];
    const Scalar& s = x.scalars[static_cast<std::size_t>(slot)];
    Vector v{StorageHandle(Storage::allocate(s.bytes.size()))};
    std::memcpy(v.data.bytes(), s.bytes.data(), s.bytes.size());
    if (s.poison != 0) v.poison = poison_mask(1, s.poison);
    if (s.bound > 0) *floats(v.bound = bound_storage(1)) = s.bound;
    return v;
  }
  void set(Exec& x, Vector v, std::int64_t width) const {
    if (tensor) {
      x.vector(slot) = std::move(v);
      return;
    }
    Scalar& s = x.scalars[static_cast<std::size_t>(slot)];
    s = {};
    std::memcpy(s.bytes.data(), v.data.bytes(), static_cast<std::size_t>(width));
    s.poison = v.poison_at(0);
    s.bound = v.bound ? v.bounds()[0] : 0.f;
  }
};

/// Bounds of n exact elements.
inline StorageHandle no_bounds(std::int64_t n) {
  StorageHandle bounds = bound_storage(n);
  std::memset(bounds.bytes(), 0, static_cast<std::size_t>(n) * sizeof(float));
  return bounds;
}

inline Operand operand(Planner& p, int value) {
  const bool tensor = is_tensor(p.type(value));
  return {tensor, tensor ? p.vector(value) : p.scalar(value)};
}
inline Operand new_result(Planner& p, int value) {
  const bool tensor = is_tensor(p.type(value));
  return {tensor, tensor ? p.new_vector(value) : p.new_scalar(value)};
}
inline std::int64_t elements(const Type& t) { return is_tensor(t) ? t.shape.elems() : 1; }

}  // namespace tessera::triton
