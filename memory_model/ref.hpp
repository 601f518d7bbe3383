// A ref: a view of a buffer, by offset, extents and strides.
//
// Units are elements of the ref's dtype. Slices may step; `squeeze` fixes an index and drops the
// dim; `bitcast` reads the same bytes as another type: of the same width with any strides, of
// another width if the last dim is contiguous, which then shrinks or grows (numpy's `view`). Packed
// 4-bit refs cannot be copied at odd offsets. Errors: RefError, with the dim and its extent. Left
// out: Mosaic's bitcast, which repacks along sublanes.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "memory_model/layout.hpp"
#include "memory_model/space.hpp"

namespace tessera {

struct RefError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Named memory in a space. Does not own it.
struct Buffer {
  std::string name;
  Space space = Space::hbm;
  DType dtype = DType::f32;
  Shape shape;
  std::byte* data = nullptr;
  std::int64_t size_bytes() const { return packed_bytes(dtype, shape.elems()); }
};

struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class Ref {
 public:
  explicit Ref(const Buffer& buffer)
      : buffer_(&buffer),
        dtype_(buffer.dtype),
        extents_(buffer.shape),
        strides_(row_major_strides(buffer.shape)) {}

  const Buffer& buffer() const { return *buffer_; }
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
  /// First byte of element (i, j, ...); 4-bit elements: of the byte that holds it.
  std::byte* address(const Shape& index) const;

 private:
  void check_dim(int dim) const;

  const Buffer* buffer_;
  DType dtype_;
  Shape extents_;
  Shape strides_;
  std::int64_t offset_ = 0;
};

/// Copies element by element, row runs at a time. Throws RefError unless types and extents agree.
void copy(const Ref& from, const Ref& to);

}  // namespace tessera
