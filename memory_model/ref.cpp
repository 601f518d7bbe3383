#include "memory_model/ref.hpp"

#include <cstring>

namespace tessera {

void Ref::check_dim(int dim) const {
  if (dim < 0 || dim >= extents_.rank) {
    throw RefError(buffer_->name + " has no dim " + std::to_string(dim));
  }
}

Ref Ref::slice(int dim, std::int64_t start, std::int64_t size, std::int64_t step) const {
  check_dim(dim);
  if (step < 1 || size < 0 || start < 0 ||
      (size > 0 && start + (size - 1) * step >= extents_[dim])) {
    throw RefError("slice " + std::to_string(start) + " + " + std::to_string(size) + " x " +
                   std::to_string(step) + " leaves dim " + std::to_string(dim) + " of " +
                   buffer_->name + ", which has " + std::to_string(extents_[dim]));
  }
  Ref r = *this;
  r.offset_ += start * strides_[dim];
  r.extents_[dim] = size;
  r.strides_[dim] *= step;
  return r;
}

Ref Ref::squeeze(int dim, std::int64_t index) const {
  Ref r = slice(dim, index, 1);
  for (int i = dim; i + 1 < extents_.rank; ++i) {
    r.extents_[i] = r.extents_[i + 1];
    r.strides_[i] = r.strides_[i + 1];
  }
  --r.extents_.rank;
  --r.strides_.rank;
  return r;
}

Ref Ref::bitcast(DType to) const {
  const int from_bits = bit_width(dtype_);
  const int to_bits = bit_width(to);
  Ref r = *this;
  r.dtype_ = to;
  if (from_bits == to_bits) return r;
  const int last = extents_.rank - 1;
  if (last < 0 || strides_[last] != 1) {
    throw RefError("bitcast of " + buffer_->name + " to " + name(to) +
                   " changes the width, so its last dim must be contiguous");
  }
  const auto rescale = [&](std::int64_t elems, const char* what) {
    if (elems * from_bits % to_bits != 0) {
      throw RefError("bitcast of " + buffer_->name + " to " + name(to) + ": its " + what + " of " +
                     std::to_string(elems) + " " + name(dtype_) + " is no whole number of them");
    }
    return elems * from_bits / to_bits;
  };
  r.offset_ = rescale(offset_, "offset");
  r.extents_[last] = rescale(extents_[last], "last extent");
  for (int i = 0; i < last; ++i) r.strides_[i] = rescale(strides_[i], "stride");
  return r;
}

ByteRange Ref::span() const {
  std::int64_t last = offset_;
  for (int i = 0; i < extents_.rank; ++i) {
    if (extents_[i] == 0) return {packed_bytes(dtype_, offset_), packed_bytes(dtype_, offset_)};
    last += (extents_[i] - 1) * strides_[i];
  }
  return {offset_ * bit_width(dtype_) / 8, packed_bytes(dtype_, last + 1)};
}

std::byte* Ref::address(const Shape& index) const {
  std::int64_t at = offset_;
  for (int i = 0; i < extents_.rank; ++i) at += index[i] * strides_[i];
  return buffer_->data + at * bit_width(dtype_) / 8;
}

namespace {
bool on_byte(const Ref& r) {
  if (bit_width(r.dtype()) >= 8) return true;
  bool even = r.offset() % 2 == 0;
  for (int i = 0; i + 1 < r.extents().rank; ++i) even = even && r.strides()[i] % 2 == 0;
  return even && (r.extents().rank == 0 || r.strides()[r.extents().rank - 1] == 1);
}
}  // namespace

void copy(const Ref& from, const Ref& to) {
  if (from.dtype() != to.dtype() || !(from.extents() == to.extents())) {
    throw RefError("copy of " + describe(from.dtype(), from.extents()) + " to " +
                   describe(to.dtype(), to.extents()));
  }
  if (!on_byte(from) || !on_byte(to)) throw RefError("copy of 4-bit elements at an odd offset");
  const Shape& extents = from.extents();
  if (extents.elems() == 0) return;
  const int last = extents.rank - 1;
  const bool runs = last >= 0 && from.strides()[last] == 1 && to.strides()[last] == 1;
  const std::int64_t run = runs ? extents[last] : 1;
  const auto run_bytes = static_cast<std::size_t>(packed_bytes(from.dtype(), run));
  Shape index = extents;
  for (int i = 0; i < index.rank; ++i) index[i] = 0;
  for (;;) {
    std::memcpy(to.address(index), from.address(index), run_bytes);
    int dim = runs ? last - 1 : last;
    while (dim >= 0 && ++index[dim] == extents[dim]) index[dim--] = 0;
    if (dim < 0) return;
  }
}

}  // namespace tessera
