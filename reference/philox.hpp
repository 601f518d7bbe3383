// Which weights of attention dropout keeps, as Philox-4x32-10 says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera::reference {

/// Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
std::array<std::uint32_t, 4> philox(const std::array<std::uint32_t, 2>& key,
                                    std::array<std::uint32_t, 4> counter);

struct Dropout {
  double rate = 0;  ///< part of the weights that is dropped; the others count 1 / (1 - rate)
  std::array<std::uint32_t, 2> seed{};

  /// What the weight of query i and key j of a plane, batch entry heads + head, is multiplied by.
  double factor(std::size_t plane, std::size_t i, std::size_t j) const;
};

}  // namespace tessera::reference
