#include "memory_model/ref.hpp"

#include <algorithm>
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
    r.base_[static_cast<std::size_t>(i)] = base_[static_cast<std::size_t>(i) + 1];
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

std::int64_t Ref::byte_offset(const Shape& index) const {
  std::int64_t at = offset_;
  for (int i = 0; i < extents_.rank; ++i) at += index[i] * strides_[i];
  return at * bit_width(dtype_) / 8;
}

Box Ref::box() const {
  const Shape& array = buffer_->shape;
  const std::int64_t width = bit_width(dtype_);
  Box box;
  if (array.rank == 0) {
    box.rank = 1;
    box.dims[0] = {0, extents_.elems() == 0 ? 0 : 1, width, width};
    return box;
  }
  box.rank = array.rank;
  const auto last = static_cast<std::size_t>(array.rank - 1);
  std::array<std::int64_t, kMaxRank> stride_bits{};
  std::int64_t bits = 1;
  std::int64_t extent = array[array.rank - 1] * bit_width(buffer_->dtype);
  std::int64_t left = offset_ * width;
  for (int d = array.rank - 1; d >= 0; --d) {
    const auto i = static_cast<std::size_t>(d);
    stride_bits[i] = bits;
    if (d < array.rank - 1) extent = array[d];
    bits *= std::max<std::int64_t>(1, extent);
    box.dims[i] = i == last ? Progression{0, 1, width, width} : Progression{};
  }
  for (int d = 0; d < array.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    box.dims[i].start = left / stride_bits[i];
    left %= stride_bits[i];
  }
  for (int d = 0; d < extents_.rank; ++d) {
    const auto b = static_cast<std::size_t>(base_[static_cast<std::size_t>(d)]);
    box.dims[b].count = extents_[d];
    box.dims[b].step = std::max<std::int64_t>(1, strides_[d] * width / stride_bits[b]);
  }
  for (int d = 0; d < box.rank; ++d) {
    Progression& p = box.dims[static_cast<std::size_t>(d)];
    if (p.count > 1 && p.step == p.width) p = {p.start, 1, p.count * p.width, p.count * p.width};
  }
  return box;
}

namespace {

bool on_byte(const Ref& r) {
  if (bit_width(r.dtype()) >= 8) return true;
  bool even = r.offset() % 2 == 0;
  for (int i = 0; i + 1 < r.extents().rank; ++i) even = even && r.strides()[i] % 2 == 0;
  return even && (r.extents().rank == 0 || r.strides()[r.extents().rank - 1] == 1);
}

/// Extents and strides without dims of 1, neighbours merged where they are one run.
struct Dims {
  Shape extents;
  Shape strides;
};
Dims merged(const Ref& r) {
  Dims m;
  for (int d = 0; d < r.extents().rank; ++d) {
    if (r.extents()[d] == 1) continue;
    m.extents.push_back(r.extents()[d]);
    m.strides.push_back(r.strides()[d]);
  }
  for (int d = m.extents.rank - 2; d >= 0; --d) {
    if (m.strides[d] != m.extents[d + 1] * m.strides[d + 1]) continue;
    m.extents[d] *= m.extents[d + 1];
    m.strides[d] = m.strides[d + 1];
    for (int i = d + 1; i + 1 < m.extents.rank; ++i) {
      m.extents[i] = m.extents[i + 1];
      m.strides[i] = m.strides[i + 1];
    }
    --m.extents.rank;
    --m.strides.rank;
  }
  return m;
}

/// Calls f(first byte in the buffer, bytes) for each run of adjacent bytes, in element order.
template <class F>
void for_each_run(const Ref& r, F&& f) {
  if (r.extents().elems() == 0) return;
  if (!on_byte(r)) throw RefError("copy of 4-bit elements at an odd offset");
  Dims m = merged(r);
  const std::int64_t width = bit_width(r.dtype());
  std::int64_t run = 1;
  if (m.extents.rank > 0 && m.strides[m.strides.rank - 1] == 1) {
    run = m.extents[m.extents.rank - 1];
    --m.extents.rank;
  }
  Shape index = m.extents;
  for (int d = 0; d < index.rank; ++d) index[d] = 0;
  std::int64_t at = r.offset();
  const std::int64_t bytes = packed_bytes(r.dtype(), run);
  for (;;) {
    f(at * width / 8, bytes);
    int d = m.extents.rank - 1;
    for (; d >= 0; --d) {
      at += m.strides[d];
      if (++index[d] < m.extents[d]) break;
      at -= m.strides[d] * m.extents[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

void gather_bytes(const Ref& from, std::byte* to) {
  const std::byte* bytes = from.buffer().bytes();
  for_each_run(from, [&](std::int64_t at, std::int64_t n) {
    std::memcpy(to, bytes + at, static_cast<std::size_t>(n));
    to += n;
  });
}
void scatter_bytes(const std::byte* from, const Ref& to) {
  std::byte* bytes = to.buffer().writable();
  for_each_run(to, [&](std::int64_t at, std::int64_t n) {
    std::memcpy(bytes + at, from, static_cast<std::size_t>(n));
    from += n;
  });
}

bool all_defined(const Ref& r) {
  if (r.buffer().shadow.all_init()) return true;
  bool defined = true;
  const int width = bit_width(r.buffer().dtype);
  for_each_run(r, [&](std::int64_t at, std::int64_t bytes) {
    const std::int64_t first = at * 8 / width;
    const std::int64_t elems = (at + bytes) * 8 / width - first;
    defined = defined && r.buffer().shadow.first_missing({first, 1, elems, elems}) < 0;
  });
  return defined;
}

void mark_defined(const Ref& r) {
  Shadow& shadow = r.buffer().shadow;
  if (shadow.all_init()) return;
  const int width = bit_width(r.buffer().dtype);
  for_each_run(r, [&](std::int64_t at, std::int64_t bytes) {
    const std::int64_t first = at * 8 / width;
    const std::int64_t elems = ((at + bytes) * 8 + width - 1) / width - first;
    shadow.mark_init({first, 1, elems, elems});
  });
}

}  // namespace

void check_copy(const Ref& from, const Ref& to) {
  const auto without_ones = [](const Shape& s) {
    Shape kept;
    for (int d = 0; d < s.rank; ++d) {
      if (s[d] != 1) kept.push_back(s[d]);
    }
    return kept;
  };
  if (from.dtype() != to.dtype() || !(without_ones(from.extents()) == without_ones(to.extents()))) {
    throw RefError("copy of " + describe(from.dtype(), from.extents()) + " to " +
                   describe(to.dtype(), to.extents()));
  }
  if (!on_byte(from) || !on_byte(to)) throw RefError("copy of 4-bit elements at an odd offset");
}

void copy(const Ref& from, const Ref& to) {
  check_copy(from, to);
  if (from.extents().elems() == 0) return;
  if (!all_defined(from)) {
    scatter(gather(from), to);
    return;
  }
  const auto one_run = [](const Ref& r) {
    const Dims m = merged(r);
    return m.extents.rank == 0 || (m.extents.rank == 1 && m.strides[0] == 1);
  };
  if (one_run(to)) {
    std::byte* target = to.buffer().writable();
    gather_bytes(from, target + to.offset() * bit_width(to.dtype()) / 8);
  } else if (one_run(from)) {
    scatter_bytes(from.buffer().bytes() + from.offset() * bit_width(from.dtype()) / 8, to);
  } else {
    std::vector<std::byte> held(static_cast<std::size_t>(from.bytes()));
    gather_bytes(from, held.data());
    scatter_bytes(held.data(), to);
  }
  mark_defined(to);
}

Staged gather(const Ref& from) {
  Staged staged;
  staged.bytes.resize(static_cast<std::size_t>(from.bytes()));
  gather_bytes(from, staged.bytes.data());
  if (all_defined(from)) return staged;
  staged.states.resize(staged.bytes.size());
  const int width = bit_width(from.buffer().dtype);
  std::int64_t done = 0;
  for_each_run(from, [&](std::int64_t at, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      staged.states[static_cast<std::size_t>(done + i)] =
          from.buffer().shadow.at((at + i) * 8 / width);
    }
    done += n;
  });
  return staged;
}

void scatter(const Staged& staged, const Ref& to) {
  scatter_bytes(staged.bytes.data(), to);
  if (staged.states.empty()) {
    mark_defined(to);
    return;
  }
  // An element is as defined as the least of its bytes.
  const int width = bit_width(to.buffer().dtype);
  const std::int64_t step = packed_bytes(to.buffer().dtype, 1);
  std::int64_t done = 0;
  for_each_run(to, [&](std::int64_t at, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += step) {
      auto state = Shadow::init;
      for (std::int64_t b = i; b < std::min(n, i + step); ++b) {
        state = std::min(state, staged.states[static_cast<std::size_t>(done + b)]);
      }
      const std::int64_t first = (at + i) * 8 / width;
      for (std::int64_t e = first; e < std::max(first + 1, (at + i + step) * 8 / width); ++e) {
        to.buffer().shadow.set(e, state);
      }
    }
    done += n;
  });
}

}  // namespace tessera
