// The memory of an operand in a core: a block of the pipeline, or scratch.
//
// As tiles see it (OperandPlan::dense is false) it is rows x cols, packed elements alone in a byte;
// a whole input block may be a view of its array in HBM, rows `stride` elements apart. A dense one
// has the operand's own shape, packed as in HBM; where it lies there in one piece, it is that piece
// until it is written. Bounds (sim/bounds): none, those of what was stored, or a sum that goes on.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "sim/bounds/sum.hpp"
#include "sim/diagnostics/missing.hpp"
#include "sim/pipeline/plan.hpp"
#include "sim/pipeline/shared_buffer.hpp"

namespace tessera {

struct MachineCore;

/// True if element i of packed memory `a` is element j of `b`, bit by bit.
bool same_bits(DType dtype, const std::byte* a, std::int64_t i, const std::byte* b, std::int64_t j);

class Block final : public SharedBuffer {
 public:
  Block() = default;
  Block(const OperandPlan& op, const DeviceSpec& spec) { take(op, spec); }
  /// Becomes an operand's: without memory, its elements defined as inputs are.
  void take(const OperandPlan& op, const DeviceSpec& spec);
  /// Gives it memory, all of it undefined.
  void allocate_undefined();

  const OperandPlan* plan = nullptr;
  const DeviceSpec* device_spec = nullptr;
  MachineCore* on = nullptr;  ///< on the asynchronous machine: the core that it belongs to
  std::int64_t stride = 0;    ///< between rows, in elements

  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(data_);
  }
  /// As SharedBuffer::own.
  template <class T>
  T* writable(bool keep) {
    return reinterpret_cast<T*>(own(keep));
  }
  const std::byte* bytes() override {
    if (!storage_) own_copy();
    return data_;
  }
  std::byte* writable() override { return own(true); }

  // Of the pipeline. `index`: of the block; `inside`: its extents within the array.

  /// Brings the block; what lies beyond the array is padding or undefined (OperandPlan::outside).
  void fetch(const std::byte* hbm, const std::int64_t* index, const Shape& inside);
  void fetch_bounds(const float* hbm, const std::int64_t* index, const Shape& inside);
  /// Of an input, another parallel cell begins: what the body has made of it is stale.
  void forget_changes(const std::byte* hbm, const std::int64_t* index);
  /// An output block begins: nothing of it is defined.
  void begin_undefined();
  /// Writes what is defined back, and says what is not.
  Missing write_back(std::byte* hbm, const std::int64_t* index, const Shape& inside) const;
  /// What is not defined keeps the bounds that the array has.
  void write_back_bounds(float* hbm, const std::int64_t* index, const Shape& inside);
  /// Of the defined elements (sim/ops/checksum.hpp); `index` null: of the whole block.
  std::uint64_t checksum(const std::int64_t* index, const Shape& inside) const;
  /// Its elements, for people; a line that says so where not all are defined.
  std::string text() const;

  // Error bounds, where they are kept.

  void clear_bounds() {
    bounds.clear();
    sum_ = bounds::SumState();
  }
  bool has_bounds() const { return !bounds.empty() || !sum_.empty(); }
  /// Of part of the block.
  StorageHandle read_bounds(int row, int col, int rows, int cols);
  /// Part of the block now holds a value with these bounds (rows x cols; null: none).
  void store_bounds(int row, int col, int rows, int cols, const float* of);
  /// Of the part, for terms that are about to be added.
  bounds::SumView sum_bounds(int row, int col);
  void settle_bounds() override;

 private:
  std::int64_t at(int row, int col) const { return std::int64_t{row} * plan->cols + col; }
  std::int64_t elems() const { return std::int64_t{plan->rows} * plan->cols; }
  int element_bytes() const;
  bool views_arrays() const;
  bool borrows_arrays() const;
  void allocate();
  void own_copy();

  bounds::SumState sum_;
};

}  // namespace tessera
