// Checksums of blocks: a sum over elements, so that any number of threads in any order makes it.
//
// checksum = sum over elements of mix(bits ^ key(index)) mod 2^64: index counts from 0 in row-major
// order of the whole block, key(index) = index * 0x9e3779b1 + 0x85ebca6b, bits are the element's,
// zero-extended, and all ones for every NaN; all in 32 bits, of which mix is a permutation (the
// finalizer of MurmurHash3, Appleby), so that no change of one element goes unseen. A 64-bit
// element adds the mix of its upper half ^ ~key(index), times 2^32.
#pragma once

#include <cstdint>
#include <cstring>

#include "memory_model/dtype.hpp"
#include "memory_model/tessera_fn.hpp"

namespace tessera {

TESSERA_FN constexpr std::uint32_t checksum_mix(std::uint32_t z) {
  z = (z ^ (z >> 16)) * 0x85ebca6bu;
  z = (z ^ (z >> 13)) * 0xc2b2ae35u;
  return z ^ (z >> 16);
}

template <class T>
TESSERA_FN std::uint64_t checksum_of(std::int64_t index, T value) {
  const std::uint32_t key = static_cast<std::uint32_t>(index) * 0x9e3779b1u + 0x85ebca6bu;
  bool is_nan = false;
  if constexpr (std::is_floating_point_v<T>)
    is_nan = value != value;
  else if constexpr (kIsSmallFloat<T>)
    is_nan = static_cast<float>(value) != static_cast<float>(value);
  if constexpr (sizeof(T) == 8) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    bits = is_nan ? ~std::uint64_t{0} : bits;
    return checksum_mix(static_cast<std::uint32_t>(bits) ^ key) +
           (std::uint64_t{checksum_mix(static_cast<std::uint32_t>(bits >> 32) ^ ~key)} << 32);
  } else {
    using Bits =
        std::conditional_t<sizeof(T) == 4, std::uint32_t,
                           std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>;
    Bits own = 0;
    std::memcpy(&own, &value, sizeof(T));
    const std::uint32_t bits = own;
    return checksum_mix((is_nan ? ~std::uint32_t{0} : bits) ^ key);
  }
}

}  // namespace tessera
