// A ref: a view of a buffer, by offset, extents and strides.
//
// Slices may step; `squeeze` fixes an index and drops the dim; `reshape` keeps the elements and
// their order, where strides can say so. `bitcast` reads the same bytes as another type: of the
// same width with any strides, of another width if the last dim is contiguous, which then shrinks
// or grows (numpy's `view`). `repack` is Mosaic's bitcast, along sublanes: a wider element is made
// of elements in successive rows (dim rank - 2), the first row lowest, and a narrower one is cut
// out of them. Errors: RefError, with the dim and its extent.
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

/// Somebody who follows what is done to a buffer.
class AccessWatch {
 public:
  AccessWatch() = default;
  AccessWatch(const AccessWatch&) = delete;
  AccessWatch& operator=(const AccessWatch&) = delete;
  virtual ~AccessWatch() = default;
  /// False while accesses need not be said.
  virtual bool wants() const = 0;
  /// An access that is about to be made.
  virtual void access(const Access& a) = 0;
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
  /// Per element, how far another build's value may be from this one (sim/bounds); empty: none.
  std::vector<float> bounds;
  /// Brings `bounds` up to date.
  virtual void settle_bounds() {}
  AccessHistory history;
  AccessWatch* watch = nullptr;  ///< told of all accesses, where races are found
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
        v_{.dtype = buffer.dtype,
           .unit_bits = bit_width(buffer.dtype),
           .extents = buffer.shape,
           .strides = row_major_strides(buffer.shape)} {}

  /// A ref without its buffer. Offset and strides count units: elements, or what repacked elements
  /// are made of.
  struct View {
    DType dtype = DType::f32;
    int unit_bits = 32;
    Shape extents;
    Shape strides;
    std::int64_t offset = 0;
    /// Units of an element, `pack_stride` apart, lowest first.
    std::int64_t pack = 1;
    std::int64_t pack_stride = 0;
    /// Index r of dim `cut_dim` is unit r % cut of what lies strides[cut_dim] x (r / cut) away.
    std::int64_t cut = 1;
    int cut_dim = 0;
  };
  const View& view() const { return v_; }
  Ref(Buffer& buffer, const View& v) : buffer_(&buffer), v_(v) {}

  Buffer& buffer() const { return *buffer_; }
  /// The same part of another buffer of the same shape: a remote device's.
  Ref in(Buffer& other) const { return Ref(other, v_); }
  DType dtype() const { return v_.dtype; }
  const Shape& extents() const { return v_.extents; }
  const Shape& strides() const { return v_.strides; }
  std::int64_t offset() const { return v_.offset; }
  /// True if elements lie one by one where offset and strides say.
  bool plain() const { return v_.pack == 1 && v_.cut == 1; }

  Ref slice(int dim, std::int64_t start, std::int64_t size, std::int64_t step = 1) const;
  Ref squeeze(int dim, std::int64_t index) const;
  Ref reshape(const Shape& to) const;
  Ref bitcast(DType to) const;
  Ref repack(DType to) const;

  /// Bytes of the elements in it.
  std::int64_t bytes() const { return packed_bytes(v_.dtype, v_.extents.elems()); }
  /// The smallest range of the buffer's bytes that holds every element.
  ByteRange span() const;
  /// What it touches: exactly, but for reshapes that cut across the buffer's dims.
  Box box() const;
  /// Offset in bytes of element (i, j, ...) of a plain ref; packed elements: of the byte that holds
  /// it.
  std::int64_t byte_offset(const Shape& index) const;

  /// Extents and strides in units, in the order of the elements' units.
  struct Dims {
    Shape extents;
    Shape strides;
  };
  Dims units() const;

 private:
  void check_dim(int dim) const;

  Buffer* buffer_;
  View v_;
};

/// Buffer::bounds of the elements of a ref; empty if its buffer has none. Throws RefError where
/// elements are not those of the buffer (bitcast).
std::vector<float> gather_bounds(const Ref& from);
void scatter_bounds(const std::vector<float>& bounds, const Ref& to);

/// Throws RefError unless the types and the extents (but for dims of 1) agree.
void check_copy(const Ref& from, const Ref& to);
/// True if its runs of packed elements begin and end at whole bytes, as those of wider ones do.
bool on_byte(const Ref& r);
/// Copies the elements, and which of them hold a value. As check_copy().
void copy(const Ref& from, const Ref& to);
/// What copy() moves, held in between: bytes, then one state per byte where not all are defined.
struct Staged {
  std::vector<std::byte> bytes;
  std::vector<Shadow::State> states;  ///< empty: every byte holds a value
  std::vector<float> bounds;          ///< Buffer::bounds of each element; empty: none
};
Staged gather(const Ref& from);
void scatter(const Staged& staged, const Ref& to);

/// The bytes alone, packed, in element order.
void gather_bytes(const Ref& from, std::byte* to);
void scatter_bytes(const std::byte* from, const Ref& to);
/// True if every element holds a value.
bool all_defined(const Ref& r);
void mark_defined(const Ref& r);

/// Calls f(index of the unit in the buffer, in units of the view) for each unit of each element, in
/// order: the slow way to do anything.
template <class F>
void for_each_unit(const Ref& r, F&& f) {
  const Ref::Dims u = r.units();
  if (u.extents.elems() == 0) return;
  Shape index = u.extents;
  for (int d = 0; d < index.rank; ++d) index[d] = 0;
  std::int64_t at = r.offset();
  for (;;) {
    f(at);
    int d = u.extents.rank - 1;
    for (; d >= 0; --d) {
      at += u.strides[d];
      if (++index[d] < u.extents[d]) break;
      at -= u.strides[d] * u.extents[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace tessera
