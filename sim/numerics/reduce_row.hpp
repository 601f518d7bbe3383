// The reduction of one row, and of columns, on the host, in the order that sim/ops/reduce.hpp
// states.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/ops/reduce.hpp"

namespace tessera {

/// Lane l with lane l + s for s = `kStep`, half of it, ..., 1. Unrolled: vectors without branches.
template <class Combine, int kStep, class T>
void fold_lanes(T* lanes) {
  for (int l = 0; l < kStep; ++l) lanes[l] = Combine::template apply<T>(lanes[l], lanes[l + kStep]);
  if constexpr (kStep > 1) fold_lanes<Combine, kStep / 2>(lanes);
}

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
  fold_lanes<Combine, kReduceLanes / 2>(lanes);
  return lanes[0];
}

/// Of every column into `to`; rows are `stride` apart.
template <class Reduction, class T>
void reduce_columns(T* to, const T* from, int rows, int cols, std::int64_t stride) {
  using Combine = typename Reduction::Combine;
  constexpr int kStrip = 64;  // columns at a time: their lanes stay in L1
  alignas(64) T lanes[kReduceLanes][kStrip];
  for (int begin = 0; begin < cols; begin += kStrip) {
    const int n = std::min(kStrip, cols - begin);
    for (auto& lane : lanes) std::fill_n(lane, kStrip, Reduction::template identity<T>());
    for (int r = 0; r < rows; ++r) {
      const T* const row = from + r * stride + begin;
      T* const lane = lanes[r % kReduceLanes];
      for (int c = 0; c < n; ++c) lane[c] = Combine::template apply<T>(lane[c], row[c]);
    }
    for (int s = kReduceLanes / 2; s > 0; s /= 2) {
      for (int l = 0; l < s; ++l) {
        for (int c = 0; c < n; ++c)
          lanes[l][c] = Combine::template apply<T>(lanes[l][c], lanes[l + s][c]);
      }
    }
    std::copy_n(lanes[0], n, to + begin);
  }
}

}  // namespace tessera
