// The functions of sim/numerics/mufu.hpp and gpu_functions.hpp over all inputs, in blocks: what a
// GPU gave is kept as a hash a block (tests/numerics/mufu_hopper.txt, made by cuda/mufu_test.cu).
#pragma once

#include <cstdint>

namespace tessera {

inline constexpr int kBlockBits = 24;
inline constexpr std::uint32_t kBlocks = 1u << (32 - kBlockBits);

/// Of outputs in the order of their inputs; every NaN is one.
class OutputHash {
 public:
  void add(std::uint32_t output) {
    const bool nan = (output & 0x7fffffffu) > 0x7f800000u;
    hash_ = (hash_ ^ (nan ? 0x7fffffffu : output)) * 0x100000001b3u;
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;  // FNV-1a, a word at a time
};

}  // namespace tessera
