// Cases and sizes of kernels that share most of them.
#pragma once

#include <array>
#include <cstddef>

#include "sim/body/kernel.hpp"

namespace tessera::kernels {

/// The cases of a body that has others by its type: the first, or the second.
template <bool kFirst, class First, class Second>
constexpr auto cases_of(const First& first, const Second& second) {
  if constexpr (kFirst)
    return first;
  else
    return second;
}

/// The sizes that kernels share, then more of them.
template <class Sizes, std::size_t kCount, class... More>
constexpr auto more_sizes(const std::array<SizeParam<Sizes>, kCount>& shared, More... more) {
  std::array<SizeParam<Sizes>, kCount + sizeof...(More)> all{};
  std::size_t at = 0;
  for (const SizeParam<Sizes>& its : shared) all[at++] = its;
  ((all[at++] = more), ...);
  return all;
}

}  // namespace tessera::kernels
