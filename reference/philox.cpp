#include "reference/philox.hpp"

#include <cmath>

namespace tessera::reference {

std::array<std::uint32_t, 4> philox(const std::array<std::uint32_t, 2>& key,
                                    std::array<std::uint32_t, 4> counter) {
  std::array<std::uint32_t, 2> k = key;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k[1], static_cast<std::uint32_t>(a)};
    k = {k[0] + 0x9E3779B9U, k[1] + 0xBB67AE85U};
  }
  return counter;
}

double Dropout::factor(std::size_t plane, std::size_t i, std::size_t j) const {
  if (rate == 0) return 1;
  const auto word = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
  const std::uint32_t drawn = philox(seed, {word(j), word(i), word(plane), 0})[0];
  return std::ldexp(static_cast<double>(drawn), -32) < rate ? 0 : 1 / (1 - rate);
}

}  // namespace tessera::reference
