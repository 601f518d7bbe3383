// The reduction of one row, and of columns, on the host, in the order, chunks and all, that
// sim/ops/reduce.hpp states.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "sim/ops/reduce.hpp"

namespace tessera {

constexpr std::int64_t reduce_chunks(std::int64_t elems) {
  return (elems + kReduceChunk - 1) / kReduceChunk;
}

/// Lane l with lane l + s for s = `kStep`, half of it, ..., 1. Unrolled: vectors without branches.
template <class Combine, int kStep, class T>
void fold_lanes(T* lanes) {
  for (int l = 0; l < kStep; ++l) lanes[l] = Combine::template apply<T>(lanes[l], lanes[l + kStep]);
  if constexpr (kStep > 1) fold_lanes<Combine, kStep / 2>(lanes);
}

/// Of one chunk, or less.
template <class Reduction, class T>
T reduce_chunk(const T* row, int columns) {
  using Combine = typename Reduction::Combine;
  alignas(64) T lanes[kReduceLanes];
  for (int l = 0; l < kReduceLanes; ++l) lanes[l] = Reduction::template identity<T>();
  int c = 0;
  for (; c + kReduceLanes <= columns; c += kReduceLanes) {
    for (int l = 0; l < kReduceLanes; ++l)
      lanes[l] = Combine::template apply<T>(lanes[l], row[c + l]);
  }
  for (int l = 0; c + l < columns; ++l) lanes[l] = Combine::template apply<T>(lanes[l], row[c + l]);
  fold_lanes<Combine, kReduceLanes / 2>(lanes);
  return lanes[0];
}

template <class Reduction, class T>
T reduce_row(const T* row, std::int64_t columns) {
  if (columns <= kReduceChunk) return reduce_chunk<Reduction>(row, static_cast<int>(columns));
  const std::int64_t chunks = reduce_chunks(columns);
  T few[kReduceChunk];
  std::unique_ptr<T[]> many(chunks > kReduceChunk ? new T[static_cast<std::size_t>(chunks)]
                                                  : nullptr);
  T* const reduced = many ? many.get() : few;
  for (std::int64_t n = 0; n < chunks; ++n)
    reduced[n] = reduce_chunk<Reduction>(
        row + n * kReduceChunk,
        static_cast<int>(std::min<std::int64_t>(kReduceChunk, columns - n * kReduceChunk)));
  return reduce_row<Reduction>(reduced, chunks);
}

/// Of every column of one chunk of rows, or less, into `to`; rows are `stride` apart.
template <class Reduction, class T>
void reduce_columns_of_chunk(T* to, const T* from, int rows, int cols, std::int64_t stride) {
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

/// Of every column into `to`.
template <class Reduction, class T>
void reduce_columns(T* to, const T* from, int rows, int cols, std::int64_t stride) {
  if (rows <= kReduceChunk) return reduce_columns_of_chunk<Reduction>(to, from, rows, cols, stride);
  const auto chunks = static_cast<int>(reduce_chunks(rows));
  const std::unique_ptr<T[]> reduced(new T[static_cast<std::size_t>(chunks) * cols]);
  for (int n = 0; n < chunks; ++n)
    reduce_columns_of_chunk<Reduction>(
        reduced.get() + std::int64_t{n} * cols, from + std::int64_t{n} * kReduceChunk * stride,
        std::min(kReduceChunk, rows - n * kReduceChunk), cols, stride);
  reduce_columns<Reduction>(to, reduced.get(), chunks, cols, cols);
}

}  // namespace tessera
