// Error bounds of what lies in a launch's storages, per element: how far another build's may be.
//
// Kept where op_state has an error model; programs then run one after the other. Floats that
// atomics add to are sums in any order.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "memory_model/array.hpp"
#include "triton/any_order.hpp"

namespace tessera::triton {

class Memory;

class MemoryBounds {
 public:
  /// Of the memory that has it: n lanes of `width` bytes at `addresses`, all of which are inside;
  /// `mask` null: all are on. Empty if all are exact.
  StorageHandle load(const Memory& of, const std::int64_t* addresses, const std::byte* mask,
                     std::int64_t n, std::int64_t width);
  /// `bounds` null: what is stored is exact.
  void store(const Memory& of, const std::int64_t* addresses, const std::byte* mask, std::int64_t n,
             std::int64_t width, const float* bounds);
  /// An atomic added `term` to a float that was `before`.
  void add(const Memory& of, std::int64_t address, DType dtype, double before, double term,
           float bound);
  /// f32 per element of a storage's type.
  Array all(const Memory& of, std::size_t storage) const;

 private:
  /// Of an element; null where all of its storage are exact, unless it is to be `made`.
  float* at(const Memory& of, std::int64_t address, std::int64_t width, bool made);

  std::vector<std::vector<float>> bounds_;  ///< per storage and element; empty: all are exact
  std::map<std::int64_t, bounds::AnyOrder> sums_;  ///< by address
};

}  // namespace tessera::triton
