// SplitMix64: well mixed bits of a number (Steele, Lea and Flood, OOPSLA 2014,
// doi:10.1145/2660193.2660195).
#pragma once

#include <cstdint>

namespace tessera {

/// By which the generator's state grows from one number to the next.
inline constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15ULL;

/// The number that follows state z.
constexpr std::uint64_t split_mix(std::uint64_t z) {
  z += kSplitMixStep;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace tessera
