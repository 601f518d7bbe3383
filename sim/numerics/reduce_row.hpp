// The reduction of one row on the host, in the order that sim/ops/reduce.hpp states.
#pragma once

#include <cstdint>

#include "sim/ops/reduce.hpp"

namespace tessera {

template <class Reduction, class T>
T reduce_row(const T* row, std::int64_t columns) {
  using Combine = typename Reduction::Combine;
  alignas(64) T lanes[kReduceLanes];
  for (int l = 0; l < kReduceLanes; ++l) lanes[l] = Reduction::template identity<T>();
  std::int64_t c = 0;
  for (; c + kReduceLanes <= columns; c += kReduceLanes) {
    for (int l = 0; l < kReduceLanes; ++l)
      lanes[l] = Combine::template apply<T>(lanes[l], row[c + l]);
  }
  for (int l = 0; c + l < columns; ++l) lanes[l] = Combine::template apply<T>(lanes[l], row[c + l]);
  for (int s = kReduceLanes / 2; s > 0; s /= 2) {
    for (int l = 0; l < s; ++l) lanes[l] = Combine::template apply<T>(lanes[l], lanes[l + s]);
  }
  return lanes[0];
}

}  // namespace tessera
