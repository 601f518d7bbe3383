// Error bounds through elementwise ops, casts and row reductions.
//
// A tile that another build may compute otherwise carries, per element, a bound e (f32, >= 0) on
// |theirs - ours|, ours being the tile's value. A mask carries 1 where the other build may decide
// otherwise. No bounds at all: every conforming build has these bits. e is infinite where nothing
// can be said: where a NaN or an infinity may or may not arise.
//
// An op z = f(a, b) with bounds ea, eb: |f(a', b') - f(a, b)| by the mean value theorem over a +-
// ea and b +- eb, plus both sides' roundings; none if the op is IEEE 754's and its operands are
// exact (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3). Formulas are evaluated in
// f32 (f64 for f64 tiles) and inflated by 2^-20 for their own roundings.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "memory_model/dtype.hpp"
#include "memory_model/storage.hpp"
#include "sim/bounds/error_model.hpp"

namespace tessera::bounds {

/// A tile without its type. `error` is null if it is exact, else rows x cols, contiguous.
struct TileView {
  const void* data;
  DType dtype;
  int rows;
  int cols;
  std::int64_t stride;
  const float* error;
};

/// Unit roundoff of a float type; 0 for others.
double unit_of(DType d);

struct Rule;
/// The rule of an op by its name; throws KernelError[unmodelled] if it has none.
const Rule& rule_of(const char* op);

/// Bounds of result = op(operands), which broadcast as tiles do; empty if exact.
StorageHandle elementwise(const Rule& rule, const ErrorModel& model, const TileView& result,
                          std::initializer_list<TileView> operands);

/// Bounds around `result`, n values that stand for `exact`, whose bounds are `kept`: how far they
/// are from each other comes on top.
template <class T>
StorageHandle around(const T* result, const T* exact, std::int64_t n, const StorageHandle& kept) {
  StorageHandle bounds(Storage::allocate(sizeof(float) * static_cast<std::size_t>(n)));
  auto* const to = reinterpret_cast<float*>(bounds.bytes());
  for (std::int64_t i = 0; i < n; ++i) {
    const auto a = static_cast<double>(static_cast<float>(result[i]));
    const auto b = static_cast<double>(static_cast<float>(exact[i]));
    const bool same = a == b || (a != a && b != b);
    to[i] = kept ? reinterpret_cast<const float*>(kept.bytes())[i] : 0.f;
    if (same) continue;
    constexpr float kUnbounded = std::numeric_limits<float>::infinity();
    const double apart = std::fabs(a - b);
    to[i] = apart >= 0 ? std::nextafter(static_cast<float>(to[i] + apart), kUnbounded) : kUnbounded;
  }
  return bounds;
}

/// Bounds of `from`, cast to `result`'s type.
StorageHandle cast(const TileView& result, const TileView& from);

/// Bounds of a (rows x 1) row_sum, row_max or row_min (`op`) of `from`, in the order of
/// sim/ops/reduce.hpp.
StorageHandle reduce_rows(const char* op, const ErrorModel& model, const TileView& result,
                          const TileView& from);

/// Bounds of a copy of part of a tile: those of `from` where keep, 0 elsewhere.
template <class Keep>
StorageHandle keep_where(const float* from, int rows, int cols, Keep keep) {
  if (from == nullptr) return {};
  const auto elems = static_cast<std::size_t>(std::int64_t{rows} * cols);
  StorageHandle bounds(Storage::allocate(sizeof(float) * elems));
  auto* to = reinterpret_cast<float*>(bounds.bytes());
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c, ++from) *to++ = keep(r, c) ? *from : 0.f;
  }
  return bounds;
}

/// Bounds of part of a block, rows x cols from `from` on, whose rows are `stride` apart.
inline StorageHandle part(const float* from, std::int64_t stride, int rows, int cols) {
  const auto elems = static_cast<std::size_t>(std::int64_t{rows} * cols);
  StorageHandle bounds(Storage::allocate(sizeof(float) * elems));
  auto* to = reinterpret_cast<float*>(bounds.bytes());
  for (int r = 0; r < rows; ++r, to += cols) std::copy_n(from + r * stride, cols, to);
  return bounds;
}
/// Per element `a` where keep, else `b`; null or empty: 0.
template <class Keep>
StorageHandle choose(const float* a, const StorageHandle& b, int rows, int cols, Keep keep) {
  const auto elems = static_cast<std::size_t>(std::int64_t{rows} * cols);
  StorageHandle bounds(Storage::allocate(sizeof(float) * elems));
  auto* to = reinterpret_cast<float*>(bounds.bytes());
  const auto* other = b ? reinterpret_cast<const float*>(b.bytes()) : nullptr;
  std::size_t i = 0;
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c, ++i) {
      const float* from = keep(r, c) ? a : other;
      to[i] = from != nullptr ? from[i] : 0.f;
    }
  }
  return bounds;
}

/// Bounds of what nothing can be said of where an operand may differ: of its bits.
inline StorageHandle unknown_where(const float* from, int rows, int cols) {
  if (from == nullptr) return {};
  const auto elems = static_cast<std::size_t>(std::int64_t{rows} * cols);
  StorageHandle bounds(Storage::allocate(sizeof(float) * elems));
  auto* to = reinterpret_cast<float*>(bounds.bytes());
  for (std::size_t i = 0; i < elems; ++i)
    to[i] = from[i] > 0 ? std::numeric_limits<float>::infinity() : 0.f;
  return bounds;
}

/// Bounds of the transpose of a tile of rows x cols.
inline StorageHandle transposed(const float* from, int rows, int cols) {
  if (from == nullptr) return {};
  const auto elems = static_cast<std::size_t>(std::int64_t{rows} * cols);
  StorageHandle bounds(Storage::allocate(sizeof(float) * elems));
  auto* to = reinterpret_cast<float*>(bounds.bytes());
  for (int c = 0; c < cols; ++c) {
    for (int r = 0; r < rows; ++r) *to++ = from[std::int64_t{r} * cols + c];
  }
  return bounds;
}

}  // namespace tessera::bounds
