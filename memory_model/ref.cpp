#include "memory_model/ref.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace tessera {

void Ref::check_dim(int dim) const {
  if (dim < 0 || dim >= v_.extents.rank) {
    throw RefError(buffer_->name + " has no dim " + std::to_string(dim));
  }
}

Ref Ref::slice(int dim, std::int64_t start, std::int64_t size, std::int64_t step) const {
  check_dim(dim);
  if (step < 1 || size < 0 || start < 0 ||
      (size > 0 && start + (size - 1) * step >= v_.extents[dim])) {
    throw RefError("slice " + std::to_string(start) + " + " + std::to_string(size) + " x " +
                   std::to_string(step) + " leaves dim " + std::to_string(dim) + " of " +
                   buffer_->name + ", which has " + std::to_string(v_.extents[dim]));
  }
  Ref r = *this;
  r.v_.extents[dim] = size;
  if (v_.cut == 1 || dim != v_.cut_dim) {
    r.v_.offset += start * v_.strides[dim];
    r.v_.strides[dim] *= step;
    return r;
  }
  r.v_.offset += start / v_.cut * v_.strides[dim] + start % v_.cut;
  const std::int64_t last = start % v_.cut + (size - 1) * step;
  if (size <= 1 || last < v_.cut) {  // inside one element of the buffer
    r.v_.strides[dim] = step;
    r.v_.cut = 1;
  } else if (step % v_.cut == 0) {  // one unit of each
    r.v_.strides[dim] = step / v_.cut * v_.strides[dim];
    r.v_.cut = 1;
  } else if (step != 1 || start % v_.cut != 0 || size % v_.cut != 0) {
    throw RefError("slice " + std::to_string(start) + " + " + std::to_string(size) + " x " +
                   std::to_string(step) + " of " + buffer_->name + " as " + name(v_.dtype) +
                   " takes parts of its elements");
  }
  return r;
}

Ref Ref::squeeze(int dim, std::int64_t index) const {
  Ref r = slice(dim, index, 1);
  if (r.v_.cut > 1 && r.v_.cut_dim > dim) --r.v_.cut_dim;
  for (int i = dim; i + 1 < r.v_.extents.rank; ++i) {
    r.v_.extents[i] = r.v_.extents[i + 1];
    r.v_.strides[i] = r.v_.strides[i + 1];
  }
  --r.v_.extents.rank;
  --r.v_.strides.rank;
  return r;
}

Ref Ref::reshape(const Shape& to) const {
  const auto fail = [&] {
    return RefError("reshape of " + buffer_->name + ", " + describe(v_.dtype, v_.extents) +
                    ", to " + to_string(to) + " is not one of strides");
  };
  if (to.elems() != v_.extents.elems()) throw fail();
  Ref r = *this;
  r.v_.extents = to;
  r.v_.strides = to;
  if (to.elems() == 0) return r;
  // Runs of old dims and of new dims with as many elements; each run of old dims must be one
  // progression. Cut dims keep to themselves.
  int from = 0;
  int next = 0;
  while (from < v_.extents.rank || next < to.rank) {
    int from_end = from;
    int next_end = next;
    std::int64_t have = 1;
    std::int64_t want = 1;
    do {
      if (have <= want && from_end < v_.extents.rank)
        have *= v_.extents[from_end++];
      else if (next_end < to.rank)
        want *= to[next_end++];
      else
        throw fail();
    } while (have != want || (from_end == from && from_end < v_.extents.rank));
    while (from_end < v_.extents.rank && next_end == to.rank && v_.extents[from_end] == 1)
      ++from_end;
    while (next_end < to.rank && from_end == v_.extents.rank && to[next_end] == 1) ++next_end;
    const bool cut = v_.cut > 1 && v_.cut_dim >= from && v_.cut_dim < from_end;
    // The run's stride, from its innermost dim that moves.
    std::int64_t stride = 1;
    std::int64_t reach = 0;
    int moving = 0;
    for (int d = from_end - 1; d >= from; --d) {
      if (v_.extents[d] == 1) continue;
      if (reach == 0)
        stride = v_.strides[d];
      else if (v_.strides[d] != reach)
        throw fail();
      reach = v_.strides[d] * v_.extents[d];
      ++moving;
    }
    int end = next_end;  // of the new dims that count elements of the buffer
    int kept = -1;       // the new dim that has the units of an element
    if (cut) {
      int inner = -1;
      for (int d = next; d < next_end; ++d) {
        if (to[d] == v_.extents[v_.cut_dim]) kept = d;
        if (to[d] != 1) inner = d;
      }
      if (kept < 0 && inner >= 0 && to[inner] > v_.cut && to[inner] % v_.cut == 0) kept = inner;
      if (moving > 1) throw fail();
      r.v_.cut_dim = std::max(0, kept);
      if (kept < 0) {  // the units of an element become dims of their own
        std::int64_t units = 1;
        for (; units < v_.cut && end > next; --end) {
          r.v_.strides[end - 1] = units;
          units *= to[end - 1];
        }
        if (units != v_.cut) throw fail();
        r.v_.cut = 1;
      }
    }
    for (int d = end - 1; d >= next; --d) {
      r.v_.strides[d] = stride;
      stride *= d == kept ? to[d] / v_.cut : to[d];
    }
    from = from_end;
    next = next_end;
  }
  return r;
}

namespace {
std::int64_t whole_quotient(std::int64_t n, std::int64_t by, const std::string& what) {
  if (n % by != 0) {
    throw RefError(what + " of " + std::to_string(n) + " is no whole number of them");
  }
  return n / by;
}
}  // namespace

Ref Ref::bitcast(DType to) const {
  const int from_bits = bit_width(v_.dtype);
  const int to_bits = bit_width(to);
  Ref r = *this;
  r.v_.dtype = to;
  if (from_bits == to_bits) return r;
  const int last = v_.extents.rank - 1;
  if (last < 0 || v_.strides[last] != 1 || !plain()) {
    throw RefError("bitcast of " + buffer_->name + " to " + name(to) +
                   " changes the width, so its last dim must be contiguous");
  }
  const auto rescale = [&](std::int64_t units, const char* what) {
    return whole_quotient(units * from_bits, to_bits,
                          "bitcast of " + buffer_->name + " to " + name(to) + ": its " + what);
  };
  r.v_.unit_bits = to_bits;
  r.v_.offset = rescale(v_.offset, "offset");
  r.v_.extents[last] = rescale(v_.extents[last], "last extent");
  for (int i = 0; i < last; ++i) r.v_.strides[i] = rescale(v_.strides[i], "stride");
  return r;
}

Ref Ref::repack(DType to) const {
  const int from_bits = bit_width(v_.dtype);
  const int to_bits = bit_width(to);
  Ref r = *this;
  r.v_.dtype = to;
  if (from_bits == to_bits) return r;
  const std::string what =
      "bitcast of " + buffer_->name + " from " + name(v_.dtype) + " to " + name(to);
  const int rows = v_.extents.rank - 2;
  if (rows < 0) throw RefError(what + ": it has no rows");
  if (to_bits > from_bits) {
    const std::int64_t f = to_bits / from_bits;
    r.v_.extents[rows] = whole_quotient(v_.extents[rows], f, what + ": its row count");
    if (v_.cut > 1) {  // what repack cut out of wider elements
      if (v_.cut_dim != rows || v_.cut % f != 0) throw RefError(what + ": its rows are in parts");
      r.v_.cut = v_.cut / f;
      r.v_.unit_bits = to_bits;
      r.v_.offset = whole_quotient(v_.offset, f, what + ": its offset");
      for (int d = 0; d < v_.extents.rank; ++d)
        r.v_.strides[d] = whole_quotient(v_.strides[d], f, what + ": its stride");
      return r;
    }
    if (v_.pack > 1) throw RefError(what + ": its elements are packed already");
    r.v_.pack = f;
    r.v_.pack_stride = v_.strides[rows];
    r.v_.strides[rows] *= f;
    return r;
  }
  const std::int64_t f = from_bits / to_bits;
  r.v_.extents[rows] *= f;
  if (v_.pack > 1) {
    if (v_.pack != f || v_.strides[rows] != v_.pack * v_.pack_stride)
      throw RefError(what + ": its elements are packed in another way");
    r.v_.pack = 1;
    r.v_.strides[rows] = v_.pack_stride;
    return r;
  }
  if (v_.cut > 1) throw RefError(what + ": its rows are in parts already");
  r.v_.unit_bits = to_bits;
  r.v_.offset *= f;
  for (int d = 0; d < v_.extents.rank; ++d) r.v_.strides[d] *= f;
  r.v_.cut = f;
  r.v_.cut_dim = rows;
  return r;
}

Ref::Dims Ref::units() const {
  Dims u;
  for (int d = 0; d < v_.extents.rank; ++d) {
    const bool cut = v_.cut > 1 && d == v_.cut_dim;
    u.extents.push_back(cut ? v_.extents[d] / v_.cut : v_.extents[d]);
    u.strides.push_back(v_.strides[d]);
    if (!cut) continue;
    u.extents.push_back(v_.cut);
    u.strides.push_back(1);
  }
  if (v_.pack > 1) {
    u.extents.push_back(v_.pack);
    u.strides.push_back(v_.pack_stride);
  }
  return u;
}

ByteRange Ref::span() const {
  const auto first = packed_bytes(DType::u8, v_.offset * v_.unit_bits / 8);
  const Dims u = units();
  if (u.extents.elems() == 0) return {first, first};
  std::int64_t last = v_.offset;
  for (int i = 0; i < u.extents.rank; ++i) last += (u.extents[i] - 1) * u.strides[i];
  return {first, ((last + 1) * v_.unit_bits + 7) / 8};
}

std::int64_t Ref::byte_offset(const Shape& index) const {
  std::int64_t at = v_.offset;
  for (int i = 0; i < v_.extents.rank; ++i) at += index[i] * v_.strides[i];
  return at * v_.unit_bits / 8;
}

Box Ref::box() const {
  const Shape& array = buffer_->shape;
  const std::int64_t width = v_.unit_bits;
  Box box;
  const Dims u = units();
  if (array.rank == 0) {
    box.rank = 1;
    box.dims[0] = {0, u.extents.elems() == 0 ? 0 : 1, bit_width(v_.dtype), bit_width(v_.dtype)};
    return box;
  }
  box.rank = array.rank;
  const int last = array.rank - 1;
  std::array<std::int64_t, kMaxRank> stride{};  // of the buffer's dims, in bits
  std::int64_t bits = 1;
  std::int64_t left = v_.offset * width;
  const auto extent = [&](int d) {
    return std::max<std::int64_t>(1, array[d] * (d == last ? bit_width(buffer_->dtype) : 1));
  };
  for (int d = last; d >= 0; --d) {
    stride[static_cast<std::size_t>(d)] = bits;
    bits *= extent(d);
  }
  for (int d = 0; d <= last; ++d) {
    const auto i = static_cast<std::size_t>(d);
    box.dims[i] = {left / stride[i], 1, 1, 1};
    left %= stride[i];
  }
  Progression& columns = box.dims[static_cast<std::size_t>(last)];
  columns.step = columns.width = width;
  if (u.extents.elems() == 0) {
    columns.count = 0;
    return box;
  }
  // Each dim of the ref, innermost first, extends the progression of the buffer's dim in which it
  // moves; what leaves that dim goes on in the next one out.
  std::array<int, kMaxRank> order{};
  for (int d = 0; d < u.extents.rank; ++d) order[static_cast<std::size_t>(d)] = d;
  std::stable_sort(order.begin(), order.begin() + u.extents.rank,
                   [&](int a, int b) { return u.strides[a] < u.strides[b]; });
  for (int k = 0; k < u.extents.rank; ++k) {
    const int d = order[static_cast<std::size_t>(k)];
    std::int64_t count = u.extents[d];
    std::int64_t apart = u.strides[d] * width;
    if (count == 1 || apart == 0) continue;
    int b = 0;
    while (b < last && (stride[static_cast<std::size_t>(b)] > apart || extent(b) == 1)) ++b;
    for (; b >= 0 && count > 1; --b) {
      Progression& p = box.dims[static_cast<std::size_t>(b)];
      const std::int64_t step =
          std::max<std::int64_t>(1, apart / stride[static_cast<std::size_t>(b)]);
      const std::int64_t inner = p.count == 1 ? p.width : (p.count - 1) * p.step + p.width;
      std::int64_t here = count;
      if (b > 0 && p.start + (count - 1) * step + inner > extent(b)) {
        here = std::max<std::int64_t>(1, extent(b) / step);
        if (p.start % step != 0) p.start %= step;
      }
      if (p.count == 1) {
        p = {p.start, here, step, p.width};
      } else if (p.step == p.width) {
        p = {p.start, here, step, p.count * p.width};
      } else {  // steps within steps: all of their span
        p = {p.start, 1, (here - 1) * step + inner, (here - 1) * step + inner};
      }
      if (p.count > 1 && p.step <= p.width) {
        const std::int64_t all = (p.count - 1) * p.step + p.width;
        p = {p.start, 1, all, all};
      }
      count = (count + here - 1) / here;
      apart = b > 0 ? stride[static_cast<std::size_t>(b - 1)] : apart;
    }
  }
  return box;
}

using Dims = Ref::Dims;

bool on_byte(const Ref& r) {
  if (r.view().unit_bits >= 8) return true;
  const Dims u = r.units();
  bool even = r.offset() % 2 == 0;
  for (int i = 0; i + 1 < u.extents.rank; ++i) even = even && u.strides[i] % 2 == 0;
  return even && (u.extents.rank == 0 || u.strides[u.extents.rank - 1] == 1);
}

namespace {

/// Extents and strides without dims of 1, neighbours merged where they are one run.
Dims merged(const Ref& r) {
  const Dims u = r.units();
  Dims m;
  for (int d = 0; d < u.extents.rank; ++d) {
    if (u.extents[d] == 1) continue;
    m.extents.push_back(u.extents[d]);
    m.strides.push_back(u.strides[d]);
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
  if (!on_byte(r)) throw RefError("copy of packed elements from inside a byte");
  Dims m = merged(r);
  const std::int64_t width = r.view().unit_bits;
  std::int64_t run = 1;
  if (m.extents.rank > 0 && m.strides[m.strides.rank - 1] == 1) {
    run = m.extents[m.extents.rank - 1];
    --m.extents.rank;
  }
  Shape index = m.extents;
  for (int d = 0; d < index.rank; ++d) index[d] = 0;
  std::int64_t at = r.offset();
  const std::int64_t bytes = (run * width + 7) / 8;
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

}  // namespace

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
    // The last of packed elements may have a byte to itself.
    const std::int64_t last = std::min(((at + bytes) * 8 + width - 1) / width, shadow.elems());
    const std::int64_t elems = last - first;
    shadow.mark_init({first, 1, elems, elems});
  });
}

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
  if (!on_byte(from) || !on_byte(to)) throw RefError("copy of packed elements from inside a byte");
}

std::vector<float> gather_bounds(const Ref& from) {
  from.buffer().settle_bounds();
  std::vector<float> gathered;
  if (from.buffer().bounds.empty()) return gathered;
  if (from.dtype() != from.buffer().dtype) throw RefError("error bounds of a bitcast");
  gathered.reserve(static_cast<std::size_t>(from.extents().elems()));
  for_each_unit(from, [&](std::int64_t at) {
    gathered.push_back(from.buffer().bounds[static_cast<std::size_t>(at)]);
  });
  return gathered;
}

void scatter_bounds(const std::vector<float>& bounds, const Ref& to) {
  to.buffer().settle_bounds();
  std::vector<float>& target = to.buffer().bounds;
  if (bounds.empty() && target.empty()) return;
  if (to.dtype() != to.buffer().dtype) throw RefError("error bounds of a bitcast");
  target.resize(static_cast<std::size_t>(to.buffer().shape.elems()), 0.f);
  std::size_t next = 0;
  for_each_unit(to, [&](std::int64_t at) {
    target[static_cast<std::size_t>(at)] = bounds.empty() ? 0.f : bounds[next++];
  });
}

void copy(const Ref& from, const Ref& to) {
  check_copy(from, to);
  if (from.extents().elems() == 0) return;
  scatter_bounds(gather_bounds(from), to);
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
    gather_bytes(from, target + to.offset() * to.view().unit_bits / 8);
  } else if (one_run(from)) {
    scatter_bytes(from.buffer().bytes() + from.offset() * from.view().unit_bits / 8, to);
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
  staged.bounds = gather_bounds(from);
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
  scatter_bounds(staged.bounds, to);
  if (staged.states.empty()) {
    mark_defined(to);
    return;
  }
  // An element is undefined if one of its bytes is.
  const int width = bit_width(to.buffer().dtype);
  const std::int64_t step = packed_bytes(to.buffer().dtype, 1);
  std::int64_t done = 0;
  for_each_run(to, [&](std::int64_t at, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += step) {
      auto state = Shadow::init;
      for (std::int64_t b = i; b < std::min(n, i + step); ++b) {
        if (state == Shadow::init) state = staged.states[static_cast<std::size_t>(done + b)];
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
