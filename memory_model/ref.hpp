// A ref: a view of a buffer, by offset, extents and strides.
//
// Units are elements of the ref's dtype. Slices may step; `squeeze` fixes an index and drops the
// dim; `bitcast` reads the same bytes as another type: of the same width with any strides, of
// another width if the last dim is contiguous, which then shrinks or grows (numpy's `view`). Packed
// 4-bit refs cannot be copied at odd offsets. Errors: RefError, with the dim and its extent. Left
// out: Mosaic's bitcast, which repacks along sublanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "memory_model/history.hpp"
#include "memory_model/layout.hpp"
#include "memory_model/shadow.hpp"
#include "memory_model/space.hpp"

namespace tessera {

struct RefError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Named memory in a space, in row-major order, with the state of its elements and its accesses.
class Buffer {
 public:
  Buffer(std::string name_, Space space_, DType dtype_, Shape shape_)
      : name(std::move(name_)), space(space_), dtype(dtype_), shape(shape_) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() = default;

  virtual const std::byte* bytes() = 0;
  /// The memory to write to; values that were handed out before keep what they had.
  virtual std::byte* writable() = 0;

  std::string name;
  Space space;
  DType dtype;
  Shape shape;
  int device = 0;
  int core = -1;        ///< global; -1: the device's own (HBM)
  int place = -1;       ///< what SPMD code calls it: the same number on every core (machine.hpp)
  int ledger_ref = -1;  ///< row of the ledger
  bool written = true;  ///< false: nothing ever writes it, so its reads cannot race
  bool shared = true;   ///< false: only its own core reaches it
  bool prefetched = false;  ///< a pipeline reads it ahead: nothing it knows now is known to that
  std::uint32_t generation = 0;  ///< counts the scopes that have used this object
  Shadow shadow;                 ///< which elements hold a value
  AccessHistory history;
};

/// Memory that somebody else owns.
class BorrowedBuffer final : public Buffer {
 public:
  BorrowedBuffer(std::string name_, Space space_, DType dtype_, Shape shape_, std::byte* data)
      : Buffer(std::move(name_), space_, dtype_, shape_), data_(data) {}
  const std::byte* bytes() override { return data_; }
  std::byte* writable() override { return data_; }

 private:
  std::byte* data_;
};

struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class Ref {
 public:
  explicit Ref(Buffer& buffer)
      : buffer_(&buffer),
        dtype_(buffer.dtype),
        extents_(buffer.shape),
        strides_(row_major_strides(buffer.shape)) {
    for (int d = 0; d < kMaxRank; ++d) base_[static_cast<std::size_t>(d)] = d;
  }

  /// A ref without its buffer.
  struct View {
    DType dtype = DType::f32;
    Shape extents;
    Shape strides;
    std::int64_t offset = 0;
    std::array<int, kMaxRank> base{};
  };
  View view() const { return {dtype_, extents_, strides_, offset_, base_}; }
  Ref(Buffer& buffer, const View& v)
      : buffer_(&buffer),
        dtype_(v.dtype),
        extents_(v.extents),
        strides_(v.strides),
        offset_(v.offset),
        base_(v.base) {}

  Buffer& buffer() const { return *buffer_; }
  /// The same part of another buffer of the same shape: a remote device's.
  Ref in(Buffer& other) const {
    Ref r = *this;
    r.buffer_ = &other;
    return r;
  }
  DType dtype() const { return dtype_; }
  const Shape& extents() const { return extents_; }
  const Shape& strides() const { return strides_; }
  std::int64_t offset() const { return offset_; }

  Ref slice(int dim, std::int64_t start, std::int64_t size, std::int64_t step = 1) const;
  Ref squeeze(int dim, std::int64_t index) const;
  Ref bitcast(DType to) const;

  /// Bytes of the elements in it.
  std::int64_t bytes() const { return packed_bytes(dtype_, extents_.elems()); }
  /// The smallest range of the buffer's bytes that holds every element.
  ByteRange span() const;
  /// Exactly what it touches.
  Box box() const;
  /// Offset in bytes of element (i, j, ...); 4-bit elements: of the byte that holds it.
  std::int64_t byte_offset(const Shape& index) const;

 private:
  void check_dim(int dim) const;

  Buffer* buffer_;
  DType dtype_;
  Shape extents_;
  Shape strides_;
  std::int64_t offset_ = 0;
  std::array<int, kMaxRank> base_{};  ///< per dim: the dim of the buffer that it slices
};

/// Throws RefError unless the types and the extents (but for dims of 1) agree.
void check_copy(const Ref& from, const Ref& to);
/// Copies the elements, and which of them hold a value. As check_copy().
void copy(const Ref& from, const Ref& to);
/// What copy() moves, held in between: bytes, then one state per byte where not all are defined.
struct Staged {
  std::vector<std::byte> bytes;
  std::vector<Shadow::State> states;  ///< empty: every byte holds a value
};
Staged gather(const Ref& from);
void scatter(const Staged& staged, const Ref& to);

}  // namespace tessera
