// The reduction of rows, and of columns, on the host, in the order, chunks and all, that
// sim/ops/reduce.hpp states.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "sim/numerics/transpose.hpp"
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

/// Combine::apply of every lane of floats.
template <class Combine, class Lanes>
Lanes combine_lanes(const Lanes& a, const Lanes& b) {
  if constexpr (std::is_same_v<Combine, Maximum>)
    return xsimd::select(xsimd::isnan(a) | (a >= b), a, b);
  else if constexpr (std::is_same_v<Combine, Minimum>)
    return xsimd::select(xsimd::isnan(a) | (a <= b), a, b);
  else
    return a + b;
}
template <class Combine, class T>
inline constexpr bool kHasLanes = std::is_same_v<T, float> && (std::is_same_v<Combine, Maximum> ||
                                                               std::is_same_v<Combine, Minimum> ||
                                                               std::is_same_v<Combine, Add>);

/// Of each of kSquare rows of one chunk, or less, of whole kReduceLanes: what one row folds to
/// soon does not fill a vector any more. The rows are `stride` apart.
template <class Reduction>
void reduce_square_of_rows(float* to, const float* from, std::int64_t stride, int columns) {
  using Combine = typename Reduction::Combine;
  using Wide = xsimd::batch<float>;
  constexpr int kWide = static_cast<int>(Wide::size);
  std::array<Four, kSquare> folded;
  for (int r = 0; r < kSquare; ++r) {
    const float* const row = from + r * stride;
    std::array<Wide, kReduceLanes / kWide> lanes;
    lanes.fill(Wide(Reduction::template identity<float>()));
    for (int c = 0; c < columns; c += kReduceLanes) {
      for (std::size_t v = 0; v < lanes.size(); ++v)
        lanes[v] = combine_lanes<Combine>(
            lanes[v], Wide::load_unaligned(row + c + static_cast<int>(v) * kWide));
    }
    alignas(64) float held[kReduceLanes];
    for (std::size_t v = 0; v < lanes.size(); ++v)
      lanes[v].store_aligned(held + static_cast<int>(v) * kWide);
    std::array<Four, kReduceLanes / kSquare> fours;
    for (std::size_t i = 0; i < fours.size(); ++i)
      fours[i] = Four::load_aligned(held + i * kSquare);
    for (std::size_t half = fours.size() / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i)
        fours[i] = combine_lanes<Combine>(fours[i], fours[i + half]);
    }
    folded[static_cast<std::size_t>(r)] = fours[0];
  }
  const auto [l0, l1, l2, l3] = transposed(folded);
  combine_lanes<Combine>(combine_lanes<Combine>(l0, l2), combine_lanes<Combine>(l1, l3))
      .store_unaligned(to);
}

/// Of every row into `to`; rows are `stride` apart.
template <class Reduction, class T>
void reduce_rows(T* to, const T* from, std::int64_t rows, std::int64_t columns,
                 std::int64_t stride) {
  std::int64_t r = 0;
  if constexpr (kHasLanes<typename Reduction::Combine, T>) {
    if (columns <= kReduceChunk && columns % kReduceLanes == 0) {
      for (; r + kSquare <= rows; r += kSquare)
        reduce_square_of_rows<Reduction>(to + r, from + r * stride, stride,
                                         static_cast<int>(columns));
    }
  }
  for (; r < rows; ++r) to[r] = reduce_row<Reduction>(from + r * stride, columns);
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
