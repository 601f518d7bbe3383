// Reductions of vectors over any of their dims, in the lanes of sim/ops/reduce.hpp: index r of the
// reduced dims, counted row by row, is combined into lane r mod 32.
#pragma once

#include <optional>
#include <string>

#include "program/program.hpp"

namespace tessera::program {

/// A vector as rows: its reduced dims last.
struct Rows {
  Shape extents;
  Shape strides;
  std::int64_t kept = 1;
  std::int64_t reduced = 1;

  std::int64_t elems() const { return kept * reduced; }
  /// The vector in that order.
  Vector of(const Vector& v, std::int64_t elem_bytes) const;
};
Rows reduced_dims(const Shape& shape, const std::vector<std::int64_t>& dims);

struct Reduction {
  /// n rows into what `to` holds.
  using Kernel = void (*)(std::byte* to, const std::byte* from, std::int64_t n,
                          std::int64_t reduced);
  std::string kind;  ///< of #vector.kind: "add", "maximumf"
  DType dtype = DType::f32;
  Rows rows;
  Kernel kernel = nullptr;
  Kernel in_f32 = nullptr;  ///< of floats: the same of f32

  /// `op` is for messages.
  Vector run(const Vector& v, const Vector& start, const Shape& extents, const char* op) const;

 private:
  void trap_nan(const char* op, const Vector& ordered, const Vector& start, const Vector& result,
                const Shape& extents) const;
  StorageHandle bounds(const Vector& ordered, const Vector& start, const Vector& result) const;
};
/// None if it is not built.
std::optional<Reduction> reduction(const std::string& kind, DType dtype, const Rows& rows);

}  // namespace tessera::program
