#include "program/memory.hpp"

#include <optional>

#include "sim/tiles/scoped.hpp"

namespace tessera::program {

namespace {

/// The buffer whose memory a ref is, all of it, as registers hold it; null if it is not.
SharedBuffer* whole_buffer(const Ref& r) {
  const Ref::View& v = r.view();
  if (!r.plain() || v.offset != 0 || v.unit_bits < 8 || v.unit_bits != bit_width(v.dtype) ||
      v.extents.elems() * v.unit_bits != r.buffer().shape.elems() * bit_width(r.buffer().dtype))
    return nullptr;
  std::int64_t stride = 1;
  for (int d = v.extents.rank - 1; d >= 0; --d) {
    if (v.extents[d] != 1 && v.strides[d] != stride) return nullptr;
    stride *= v.extents[d];
  }
  return dynamic_cast<SharedBuffer*>(&r.buffer());
}

void track(Exec& x, const Ref& r, bool write, bool atomic = false) {
  if (x.core == nullptr || !x.core->machine->tracks(r.buffer())) return;
  Access a;
  a.box = r.box();
  a.write = write;
  a.atomic = atomic;
  a.site = site_of(*x.core, x.here());
  a.kind = write ? "write" : "read";
  x.core->machine->access(*x.core, r.buffer(), std::move(a));
}

/// The element of the buffer that a unit lies in.
struct UnitElement {
  explicit UnitElement(const Ref& r)
      : unit(r.view().unit_bits), width(bit_width(r.buffer().dtype)) {}
  std::int64_t operator()(std::int64_t at) const { return at * unit / width; }
  std::int64_t unit;
  std::int64_t width;
};

/// f(element, unit in the buffer), for every unit.
template <class F>
void for_each_element(const Ref& r, F&& f) {
  const std::int64_t units = bit_width(r.dtype()) / r.view().unit_bits;
  std::int64_t i = 0;
  for_each_unit(r, [&](std::int64_t at) { f(i++ / units, at); });
}

/// Calls f with the type of units of less than a byte.
template <class F>
void with_unit(std::int64_t bits, F&& f) {
  if (bits == 4)
    f(TypeTag<u4>{});
  else
    f(TypeTag<u2>{});
}

/// The elements as registers hold them.
void read_elements(const Ref& from, std::byte* to) {
  const std::int64_t bits = from.view().unit_bits;
  if (bits >= 8) {
    gather_bytes(from, to);
    return;
  }
  const std::byte* const bytes = from.buffer().bytes();
  if (bit_width(from.dtype()) < 8) {
    visit_dtype(from.dtype(), [&]<class T>(TypeTag<T>) {
      if constexpr (kIsPacked<T>) {
        for_each_element(from, [&](std::int64_t e, std::int64_t at) {
          reinterpret_cast<T*>(to)[e] = tessera::load_element<T>(bytes, at);
        });
      }
    });
    return;
  }
  const std::int64_t width = register_bytes(from.dtype());
  std::memset(to, 0, static_cast<std::size_t>(from.extents().elems() * width));
  with_unit(bits, [&]<class U>(TypeTag<U>) {
    std::int64_t i = 0;
    for_each_unit(from, [&](std::int64_t at) {
      store_element(to, i++, tessera::load_element<U>(bytes, at));
    });
  });
}
void write_elements(const std::byte* from, const Ref& to) {
  const std::int64_t bits = to.view().unit_bits;
  if (bits >= 8) {
    scatter_bytes(from, to);
    return;
  }
  std::byte* const bytes = to.buffer().writable();
  if (bit_width(to.dtype()) < 8) {
    visit_dtype(to.dtype(), [&]<class T>(TypeTag<T>) {
      if constexpr (kIsPacked<T>) {
        for_each_element(to, [&](std::int64_t e, std::int64_t at) {
          store_element(bytes, at, reinterpret_cast<const T*>(from)[e]);
        });
      }
    });
    return;
  }
  with_unit(bits, [&]<class U>(TypeTag<U>) {
    std::int64_t i = 0;
    for_each_unit(to, [&](std::int64_t at) {
      store_element(bytes, at, tessera::load_element<U>(from, i++));
    });
  });
}

/// True if the elements of a ref are elements of its buffer: bounds are theirs.
void check_same_elements(const Ref& r) {
  if (r.dtype() != r.buffer().dtype || r.view().unit_bits != bit_width(r.dtype()))
    fail_bounds_of("through memory that is read as another type");
}
StorageHandle read_bounds(const Ref& from) {
  const std::vector<float>& bounds = from.buffer().bounds;
  if (bounds.empty()) return {};
  check_same_elements(from);
  StorageHandle read = bound_storage(from.extents().elems());
  float* to = floats(read);
  if (whole_buffer(from) != nullptr)
    std::copy(bounds.begin(), bounds.end(), to);
  else
    for_each_unit(from, [&](std::int64_t at) { *to++ = bounds[static_cast<std::size_t>(at)]; });
  return read;
}
/// Null: all are exact. Where `mask` is 0 nothing changes.
void write_bounds(const float* from, const Ref& to, const std::byte* mask) {
  std::vector<float>& bounds = to.buffer().bounds;
  if (bounds.empty() && from == nullptr) return;
  check_same_elements(to);
  bounds.resize(static_cast<std::size_t>(to.buffer().shape.elems()), 0.f);
  if (mask == nullptr && whole_buffer(to) != nullptr) {
    if (from == nullptr)
      bounds.clear();
    else
      std::copy_n(from, bounds.size(), bounds.begin());
    return;
  }
  std::int64_t next = 0;
  for_each_unit(to, [&](std::int64_t at) {
    if (mask == nullptr || mask[next] != std::byte{0})
      bounds[static_cast<std::size_t>(at)] = from != nullptr ? from[next] : 0.f;
    ++next;
  });
}

/// An element of a memref, as a ref of it; nothing if a load may go wrong there: it gives poison.
std::optional<Ref> element_of(Exec& x, const MemRef& m, std::span<const int> slots, DType dtype,
                              bool load) {
  const bool unchecked = load && x.unchecked_bounds;
  if (m.outside.any() && unchecked) return {};
  m.check_inside();
  Ref::View v = m.view;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const int d = static_cast<int>(i);
    const std::int64_t at = x.integer(slots[i], dtype, "an index");
    if (at < 0 || at >= v.extents[d]) {
      if (unchecked) return {};
      fail_bounds(m, d, at, 1, v.extents[d]);
    }
    if (v.cut > 1 && v.cut_dim == d)
      v.offset += at / v.cut * v.strides[d] + at % v.cut;
    else
      v.offset += at * v.strides[d];
  }
  v.cut = 1;
  v.extents.rank = 0;
  v.strides.rank = 0;
  return Ref(*m.buffer, v);
}
}  // namespace

Ref part_of(const MemRef& m, std::span<const std::int64_t> start, const Shape& extents,
            std::span<const std::int64_t> steps) {
  if (m.buffer == nullptr) fail_ref("a load or store of semaphores");
  Ref r = m.ref();
  std::array<bool, kMaxRank> repeats{};
  for (int d = 0; d < extents.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    const std::int64_t step = i < steps.size() ? steps[i] : 1;
    const std::int64_t size = step == 0 ? 1 : extents[d];
    const std::int64_t reach = size == 0 ? 0 : (size - 1) * step + 1;
    if (start[i] < 0 || step < 0 || start[i] + reach > r.extents()[d])
      fail_bounds(m, d, start[i], reach, r.extents()[d]);
    if (start[i] == 0 && size == r.extents()[d] && step <= 1) {
      repeats[i] = step == 0 && extents[d] != 1;
      continue;
    }
    try {
      r = r.slice(d, start[i], size, std::max<std::int64_t>(1, step));
    } catch (const RefError& e) {
      fail_ref(e.what());
    }
    repeats[i] = step == 0 && extents[d] != 1;
  }
  Ref::View v = r.view();
  bool any = false;
  for (int d = 0; d < extents.rank; ++d) {
    if (!repeats[static_cast<std::size_t>(d)]) continue;
    v.extents[d] = extents[d];
    v.strides[d] = 0;
    any = true;
  }
  return any ? Ref(*m.buffer, v) : r;
}

Ref::View outside_slice(Ref::View v, int dim, std::int64_t start, std::int64_t size) {
  v.offset += start * v.strides[dim];
  v.extents[dim] = size;
  return v;
}

bool ends_in_tiles(const Exec& x, const MemRef& m, int dim, std::int64_t start, std::int64_t size) {
  const Buffer& array = *m.buffer;
  const Ref::View& v = m.view;
  const NativeTile tile = x.context.plan->device.tile(array.dtype);
  const int rank = array.shape.rank;
  const int from_last = v.extents.rank - 1 - dim;
  if (tile.lanes == 1 || array.space != Space::hbm || v.dtype != array.dtype || v.cut > 1 ||
      from_last > 1 || from_last >= rank)
    return false;
  const std::int64_t extent = array.shape[rank - 1 - from_last];
  const std::int64_t stride = from_last == 0 ? 1 : array.shape[rank - 1];
  if (v.extents[dim] != extent || v.strides[dim] != stride || start < 0 || start >= extent)
    return false;
  std::int64_t unit = compact_tile(tile, array.dtype, extent).sublanes;
  if (from_last == 0) unit = rank == 1 ? line_elems(array.dtype, tile) : tile.lanes;
  return start + size <= (extent + unit - 1) / unit * unit;
}

namespace {

/// Memory of its own that stands for padding of a memref's array: undefined, or nobody's, so that
/// any copy may write it.
Ref padding_of(Exec& x, const MemRef& m, const Shape& extents, bool nobodys) {
  for (const auto& b : x.padding) {
    if (b->shared == nobodys && b->name == m.buffer->name && b->dtype == m.view.dtype &&
        b->shape == extents)
      return Ref(*b);
  }
  x.padding.push_back(
      std::make_unique<SharedBuffer>(m.buffer->name, m.buffer->space, m.view.dtype, extents));
  Buffer& made = *x.padding.back();
  made.device = m.buffer->device;
  made.core = m.buffer->core;
  made.ledger_ref = m.buffer->ledger_ref;
  made.written = false;
  made.shared = nobodys;
  return Ref(made);
}

}  // namespace

std::vector<PaddedCopy> padded_copies(Exec& x, const MemRef& from, const MemRef& to) {
  const bool reads = from.outside.in_tiles();
  const bool writes = to.outside.in_tiles();
  if (reads == writes || (reads ? to : from).outside.any() ||
      !(from.view.extents == to.view.extents))
    return {};
  const MemRef& array = reads ? from : to;
  const MemRef& other = reads ? to : from;
  Ref::View there = array.view;  // what is left of both
  Ref here = other.ref();
  std::vector<PaddedCopy> copies;
  for (const OutsideDim& o : array.outside.dims) {
    const std::int64_t inside = o.extent - o.start;
    const Ref beside = here.slice(o.now, inside, o.size - inside);
    const Ref padding = padding_of(x, array, beside.extents(), writes);
    copies.push_back({reads ? padding : beside, reads ? beside : padding, true});
    here = here.slice(o.now, 0, inside);
    there.extents[o.now] = inside;
  }
  const Ref held(*array.buffer, there);
  copies.push_back({reads ? held : here, reads ? here : held, false});
  return copies;
}

Ref readable(Exec& x, const MemRef& m) {
  const Outside& out = m.outside;
  if (!out.any() || !x.unchecked_bounds) return m.ref();
  bool none_there = false;
  bool known = true;
  Ref::View there = m.view;
  std::vector<std::array<std::int64_t, 3>> parts;  // dim, first, size
  for (const OutsideDim& o : out.dims) {
    const std::int64_t first = std::max<std::int64_t>(0, -o.start);
    const std::int64_t end = std::min(o.size, o.extent - o.start);
    none_there = none_there || first >= end;
    known = known && o.now >= 0;
    if (first >= end || o.now < 0) continue;
    there = outside_slice(there, o.now, first, end - first);
    parts.push_back({o.now, first, end - first});
  }
  if (!none_there && !known) m.check_inside();  // some of it is there, but which?
  auto made =
      std::make_unique<SharedBuffer>(m.buffer->name, m.buffer->space, m.view.dtype, m.view.extents);
  made->device = m.buffer->device;
  made->core = m.buffer->core;
  made->ledger_ref = m.buffer->ledger_ref;
  made->written = made->shared = false;
  const Ref all(*made);
  if (!none_there) {
    const Ref from(*m.buffer, there);
    Ref to = all;
    for (const auto& [dim, first, size] : parts) to = to.slice(static_cast<int>(dim), first, size);
    track(x, from, false);
    copy(from, to);
  }
  x.outside.push_back(std::move(made));
  return all;
}

namespace {

/// Of what the running step reads.
Origin origin(const Exec& x, Shadow::State s) {
  if (s == Shadow::init) return 0;
  if (s == Shadow::uninit) return x.undefined();
  if (s == Shadow::stale) return static_cast<Origin>(x.undefined() | kStale);
  return Shadow::origin(s);
}
/// Of what the running step stores.
Shadow::State state_of(const Exec& x, Origin o) {
  if (o == 0) return Shadow::init;
  if (x.stays(o)) return (o & kStale) != 0 ? Shadow::stale : Shadow::uninit;
  return Shadow::undefined(o);
}

/// Of one element that the running step reads.
Origin origin(const Exec& x, const Ref& element) {
  const Shadow& shadow = element.buffer().shadow;
  Origin found = 0;
  if (shadow.all_init()) return found;
  for_each_unit(element, [&, of = UnitElement(element)](std::int64_t at) {
    if (found == 0) found = origin(x, shadow.at(of(at)));
  });
  return found;
}
/// One element that the running step has written holds a value, or an undefined one.
void mark(const Exec& x, const Ref& element, Origin o) {
  Shadow& shadow = element.buffer().shadow;
  if (o == 0 && shadow.all_init()) return;
  if (o == 0) return mark_defined(element);
  for_each_unit(element, [&, of = UnitElement(element)](std::int64_t at) {
    shadow.set(of(at), state_of(x, o));
  });
}

}  // namespace

Vector load(Exec& x, const Ref& from) {
  track(x, from, false);
  const std::int64_t n = from.extents().elems();
  Vector v;
  if (const SharedBuffer* whole = whole_buffer(from)) {
    v.data = whole->storage();
  } else {
    v.data = StorageHandle(
        Storage::allocate(static_cast<std::size_t>(n * register_bytes(from.dtype()))));
    read_elements(from, v.data.bytes());
  }
  v.bound = read_bounds(from);
  const Shadow& shadow = from.buffer().shadow;
  if (shadow.all_init()) return v;
  if (from.view().unit_bits >= 8 && all_defined(from)) return v;
  bool any = false;
  v.poison = poison_mask(n, 0);
  const UnitElement element(from);
  for_each_element(from, [&](std::int64_t e, std::int64_t at) {
    const Origin o = origin(x, shadow.at(element(at)));
    if (o == 0) return;
    v.poison.bytes()[e] = std::byte{o};
    any = true;
  });
  if (!any) v.poison = StorageHandle();
  return v;
}

void store(Exec& x, const Vector& v, const Ref& to, const std::byte* mask) {
  track(x, to, true);
  write_bounds(v.bounds(), to, mask);
  Shadow& shadow = to.buffer().shadow;
  const UnitElement element(to);
  if (mask == nullptr) {
    if (SharedBuffer* const whole = whole_buffer(to))
      whole->adopt(v.data);
    else
      write_elements(v.data.bytes(), to);
    if (!v.poison && to.view().unit_bits >= 8) {
      mark_defined(to);
      return;
    }
    for_each_element(to, [&](std::int64_t e, std::int64_t at) {
      const Origin o = v.poison_at(e);
      if (o != 0 || !shadow.all_init()) shadow.set(element(at), state_of(x, o));
    });
    return;
  }
  const std::int64_t n = to.extents().elems();
  const auto width = static_cast<std::size_t>(register_bytes(to.dtype()));
  const StorageHandle both(Storage::allocate(static_cast<std::size_t>(n) * width));
  read_elements(to, both.bytes());
  for (std::int64_t e = 0; e < n; ++e) {
    const auto at = static_cast<std::size_t>(e) * width;
    if (mask[e] != std::byte{0}) std::memcpy(both.bytes() + at, v.data.bytes() + at, width);
  }
  write_elements(both.bytes(), to);
  for_each_element(to, [&](std::int64_t e, std::int64_t at) {
    if (mask[e] == std::byte{0}) return;
    const Origin o = v.poison_at(e);
    if (o != 0 || !shadow.all_init()) shadow.set(element(at), state_of(x, o));
  });
}

Ref readable_part(Exec& x, const MemRef& m, std::span<const std::int64_t> start,
                  const Shape& extents, std::span<const std::int64_t> steps) {
  if (!x.unchecked_bounds || !steps.empty() || m.buffer == nullptr)
    return part_of(m, start, extents, steps);
  MemRef part = m;
  for (int d = 0; d < extents.rank; ++d) {
    const std::int64_t at = start[static_cast<std::size_t>(d)];
    const std::int64_t extent = part.view.extents[d];
    if (at >= 0 && at + extents[d] <= extent) continue;
    if (part.view.cut > 1 || m.outside.any()) fail_bounds(m, d, at, extents[d], extent);
    part.outside.dims.push_back({part.in_buffer(d), d, at, extents[d], extent});
    part.outside.at = x.here();
  }
  if (!part.outside.any() || m.outside.any()) return part_of(m, start, extents, steps);
  for (int d = 0; d < extents.rank; ++d)
    part.view = outside_slice(part.view, d, start[static_cast<std::size_t>(d)], extents[d]);
  return readable(x, part);
}

std::optional<MaskedPart> masked_part(const MemRef& m, std::span<const std::int64_t> start,
                                      const Shape& extents, std::span<const std::int64_t> steps,
                                      const std::byte* mask) {
  if (m.buffer == nullptr || m.outside.any() || m.view.cut > 1) return {};
  const Shape& all = m.view.extents;
  std::vector<std::int64_t> begin(start.begin(), start.end());
  Shape inside = extents;
  bool leaves = false;
  for (int d = 0; d < extents.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    const std::int64_t step = i < steps.size() ? steps[i] : 1;
    if (step < 1) return {};
    const std::int64_t first = start[i] < 0 ? (-start[i] + step - 1) / step : 0;
    const std::int64_t end =
        start[i] < all[d] ? std::min(extents[d], (all[d] - start[i] + step - 1) / step) : 0;
    begin[i] = start[i] + first * step;
    inside[d] = std::max<std::int64_t>(0, end - first);
    leaves = leaves || inside[d] != extents[d];
  }
  if (!leaves) return {};
  std::vector<std::int64_t> place;
  std::vector<std::byte> kept;
  for (std::int64_t e = 0; e < extents.elems(); ++e) {
    const Shape at = unravel(extents, e);
    bool there = true;
    for (int d = 0; d < extents.rank; ++d) {
      const auto i = static_cast<std::size_t>(d);
      const std::int64_t step = i < steps.size() ? steps[i] : 1;
      const std::int64_t index = start[i] + at[d] * step;
      if (index >= 0 && index < all[d]) continue;
      there = false;
      if (mask[e] != std::byte{0}) fail_bounds(m, d, index, 1, all[d]);
    }
    if (!there) continue;
    place.push_back(e);
    kept.push_back(mask[e]);
  }
  if (place.empty()) {
    inside = extents;
    for (int d = 0; d < inside.rank; ++d) {
      inside[d] = 0;
      begin[static_cast<std::size_t>(d)] = 0;
    }
  }
  return MaskedPart{part_of(m, begin, inside, steps), std::move(place), std::move(kept)};
}

Scalar load_element(Exec& x, const MemRef& m, std::span<const int> index, DType index_type) {
  Scalar s;
  const std::optional<Ref> found = element_of(x, m, index, index_type, true);
  if (!found) {
    s.poison = x.undefined();
    return s;
  }
  const Ref& r = *found;
  track(x, r, false);
  s.poison = origin(x, r);
  if (s.poison == 0 && x.unknown(r.buffer().space)) s.poison = kAnyRead;
  read_elements(r, s.bytes.data());
  const StorageHandle bound = read_bounds(r);
  s.bound = bound ? *floats(bound) : 0.f;
  return s;
}

void store_element(Exec& x, const Scalar& s, const MemRef& m, std::span<const int> index,
                   DType index_type) {
  const Ref r = *element_of(x, m, index, index_type, false);
  track(x, r, true);
  write_elements(s.bytes.data(), r);
  mark(x, r, s.poison);
  write_bounds(s.bound > 0 ? &s.bound : nullptr, r, nullptr);
}

void add_to_element(Exec& x, const MemRef& m, std::span<const int> index, DType index_type,
                    int amount, int before) {
  const Ref r = *element_of(x, m, index, index_type, false);
  track(x, r, true, true);
  std::int32_t value = 0;
  read_elements(r, reinterpret_cast<std::byte*>(&value));
  Origin poison = origin(x, r);
  x.set(before, value, poison);
  if (poison == 0) poison = x.scalars[static_cast<std::size_t>(amount)].poison;
  const auto sum =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(value) + x.get<std::uint32_t>(amount));
  write_elements(reinterpret_cast<const std::byte*>(&sum), r);
  mark(x, r, computed_from(poison));
}

namespace {

Space space_named(const std::string& name) {
  if (name == "smem") return Space::smem;
  if (name == "any" || name == "hbm") return Space::hbm;
  if (name == "semaphore_mem") return Space::semaphore;
  return Space::vmem;
}

}  // namespace

MemRef allocate(Exec& x, const Type& t, const std::string& name) {
  MachineCore& core = x.machine_core();
  ScopedMemory made;
  MemRef m;
  if (!t.semaphore.empty()) {
    made.semaphores = std::make_unique<std::vector<Semaphore*>>();
    const std::int64_t n = t.shape.elems();
    for (std::int64_t i = 0; i < n; ++i) {
      made.own.push_back(std::make_unique<Semaphore>(
          n == 1 ? name : name + "[" + std::to_string(i) + "]",
          t.semaphore == "dma_semaphore" ? Semaphore::Kind::dma : Semaphore::Kind::regular,
          core.id));
      core.machine->place(*made.own.back());
      made.semaphores->push_back(made.own.back().get());
    }
    m.semaphores = made.semaphores.get();
    m.view.extents = t.shape;
    m.view.strides = row_major_strides(t.shape);
    x.scopes.back().push_back(std::move(made));
    return m;
  }
  made.plan.name = name;
  made.plan.dtype = t.dtype;
  made.plan.space = space_named(t.space);
  made.plan.array = made.plan.kept = t.shape;
  detail::enter_scope(core, made.plan);
  // What an earlier scope of the same shape has given back, or fresh memory.
  const auto kept = std::find_if(x.retired.begin(), x.retired.end(), [&](const auto& b) {
    return b->space == made.plan.space && b->dtype == t.dtype && b->shape == t.shape;
  });
  if (kept != x.retired.end()) {
    made.buffer = std::move(*kept);
    x.retired.erase(kept);
    made.buffer->name = name;
    poison(made.buffer->writable(), t.dtype, t.shape.elems());
    made.buffer->shadow = Shadow(t.shape.elems(), Shadow::uninit);
    made.buffer->bounds.clear();
  } else {
    made.buffer = std::make_unique<SharedBuffer>(name, made.plan.space, t.dtype, t.shape);
  }
  Buffer& b = *made.buffer;
  if (x.unknown(b.space)) b.shadow.fill(Shadow::init);
  b.device = core.device;
  b.core = core.id;
  b.ledger_ref = x.context.plan->scoped_ref;
  core.machine->place(b);
  x.scopes.back().push_back(std::move(made));
  return MemRef::whole(b);
}

void leave_scope(Exec& x) {
  auto& scope = x.scopes.back();
  // What is wrong with a buffer names semaphores: all of them are checked before any is gone.
  for (auto made = scope.rbegin(); made != scope.rend(); ++made) {
    MachineCore& core = x.machine_core();
    for (std::size_t i = made->own.size(); i-- > 0;)
      core.machine->end_of_scope(core, *made->own[i]);
    if (made->buffer) core.machine->end_of_scope(core, *made->buffer);
  }
  free_scope(x);
}

void free_scope(Exec& x) {
  auto& scope = x.scopes.back();
  while (!scope.empty()) {
    ScopedMemory& made = scope.back();
    MachineCore& core = x.machine_core();
    for (std::size_t i = made.own.size(); i-- > 0;) core.machine->unplace(*made.own[i]);
    if (made.buffer) {
      core.machine->unplace(*made.buffer);
      detail::leave_scope(core, made.plan);
      // It outlives its scope: a transfer that nobody waited for may still land there.
      x.retired.push_back(std::move(made.buffer));
    }
    scope.pop_back();
  }
  x.scopes.pop_back();
}

}  // namespace tessera::program
