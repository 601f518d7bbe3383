// tt.* of global memory: pointers, loads and stores.
//
// Pointers are 64-bit integers (memory.hpp); offsets count elements, and are taken with their sign.
#include "triton/memory.hpp"

#include <optional>

#include "program/elements.hpp"
#include "program/rules.hpp"
#include "sim/numerics/op_state.hpp"
#include "triton/plan_kernel.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

template <std::int64_t kBytes>
struct AddPointer {
  static bool regular(Regular& to, const Regular* const* in, const Shape& /*shape*/) {
    return regular_add_scaled(to, in, kBytes);
  }
  template <class T>
  static std::int64_t apply(std::int64_t pointer, T offset) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(pointer) +
                                     static_cast<std::uint64_t>(static_cast<std::int64_t>(offset)) *
                                         kBytes);
  }
};

void plan_addptr(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  const Type& t = p.type(op.results[0]);
  if (!t.pointer || !p.type(op.operands[0]).pointer) p.unsupported(op, "of no pointer");
  ElementOp e;
  e.result = DType::i64;
  with_integer(p.type(op.operands[1]).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      const auto scaled = [&]<std::int64_t kBytes>(std::integral_constant<std::int64_t, kBytes>) {
        e.kernel = run_elements<AddPointer<kBytes>, std::int64_t, T>;
        e.regular = AddPointer<kBytes>::regular;
      };
      switch (register_bytes(t.pointee)) {
        case 1:
          scaled(std::integral_constant<std::int64_t, 1>{});
          break;
        case 2:
          scaled(std::integral_constant<std::int64_t, 2>{});
          break;
        case 4:
          scaled(std::integral_constant<std::int64_t, 4>{});
          break;
        default:
          scaled(std::integral_constant<std::int64_t, 8>{});
      }
    }
  });
  if (e.kernel == nullptr || bit_width(t.pointee) < 8) p.unsupported(op, "of these types");
  p.element_op(op, e, op.operands);
}

/// What decides an access may not be undefined, where the mask is set.
void defined(const Exec& x, const Vector& v, const std::byte* on, std::int64_t n,
             const char* what) {
  for (std::int64_t e = 0; v.poison && e < n; ++e) {
    if ((on != nullptr && on[e] == std::byte{0}) || !v.is_poison(e)) continue;
    if (x.dry && read_of(v.poison_at(e)) != kWrapped) x.fail_value();
    fail_poison(v.poison_at(e), what, x.wrapped());
  }
}

/// Where a load or store of a tensor is.
struct Access {
  DType dtype = DType::f32;  ///< of its elements
  Shape shape;
  std::int64_t elems = 0;
  bool masked = false;
  bool regular = false;  ///< addresses and mask: else they are vectors
  RegularView pointers;
  RegularView mask;
  int pointer_slot = -1;
  int mask_slot = -1;

  void read(Planner& p) const {
    if (pointer_slot >= 0) p.read(pointer_slot);
    if (mask_slot >= 0) p.read(mask_slot);
  }

  std::vector<StepNote::Slot> where() const {
    std::vector<StepNote::Slot> all;
    const auto add = [&](const RegularView& view, int slot) {
      if (slot >= 0)
        all.push_back({Type::Kind::vector, slot, dtype, shape});
      else if (view.splat)
        all.push_back({Type::Kind::scalar, view.slot, view.dtype, {}});
    };
    add(pointers, pointer_slot);
    if (masked) add(mask, mask_slot);
    return all;
  }

  /// The lanes that it accesses, if both are regular now; `full`: all. `steps`: bytes between them.
  std::optional<Strided> strided(const Exec& x, bool& full, Lent* steps = nullptr) const {
    if (!regular) return std::nullopt;
    Regular own;
    Regular own_mask;
    const Regular& at = regular_value(x, pointers, own);
    const Regular* const box = masked ? &regular_value(x, mask, own_mask) : nullptr;
    if (at.dense.data || (masked && box->dense.data)) return std::nullopt;
    // Of addresses farther out no storage is, and sums of them may not fit into 64 bits.
    std::int64_t least = 0;
    std::int64_t largest = 0;
    if (!regular_range(at, shape, least, largest) || least < 0 || largest >= std::int64_t{1} << 62)
      return std::nullopt;
    full = !masked || is_full(*box, shape);
    if (steps != nullptr) *steps = {false, at.step[0], at.step[1]};
    return triton::strided(at, full ? nullptr : box, shape);
  }

  struct Lanes {
    Vector pointers;
    Vector mask;  ///< empty: all
    const std::int64_t* addresses() const {
      return reinterpret_cast<const std::int64_t*>(pointers.data.bytes());
    }
    const std::byte* on() const { return mask.data ? mask.data.bytes() : nullptr; }
  };
  /// Lane by lane; what decides where it is may not be undefined.
  Lanes lanes(Exec& x) const {
    Lanes l;
    if (masked) {
      l.mask = regular ? elements_of(x, mask) : x.vector(mask_slot);
      defined(x, l.mask, nullptr, elems, "a mask");
    }
    l.pointers = regular ? elements_of(x, pointers) : x.vector(pointer_slot);
    defined(x, l.pointers, l.on(), elems, "an address");
    return l;
  }
};

/// `t`: of what is loaded or stored; `mask`: -1 if there is none.
Access access_of(Planner& p, const Type& t, int pointer, int mask) {
  Access a;
  a.dtype = t.dtype;
  a.shape = t.shape;
  a.elems = t.shape.elems();
  a.masked = mask >= 0;
  a.regular = p.is_regular(pointer) && (!a.masked || p.is_regular(mask));
  if (a.regular) {
    a.pointers = p.regular(pointer);
    if (a.masked) a.mask = p.regular(mask);
    return a;
  }
  a.pointer_slot = p.vector(pointer);
  if (a.masked) a.mask_slot = p.vector(mask);
  return a;
}

/// Of a dry run: its values are nobody's.
bool counts_alone(const Exec& x, int site) {
  return x.dry &&
         !static_cast<const Instance&>(x).memory.sites()[static_cast<std::size_t>(site)].wanted;
}
std::vector<StepNote::Slot> scalar_places(int pointer, int mask) {
  std::vector<StepNote::Slot> all{{Type::Kind::scalar, pointer, DType::i64, {}}};
  if (mask >= 0) all.push_back({Type::Kind::scalar, mask, DType::boolean, {}});
  return all;
}

bool has_layouts(const Instance& x, int site) {
  return !x.memory.sites()[static_cast<std::size_t>(site)].layouts.empty();
}
void count_sectors(Instance& x, int site, const Access& access, std::int64_t width) {
  const Access::Lanes lanes = access.lanes(x);
  x.memory.count_sectors(x, site, lanes.addresses(), lanes.on(), access.elems, width);
}

/// Lanes that a mask leaves out are undefined.
void leave_out(StorageHandle& poison, Origin origin, const std::byte* mask, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (mask[i] != std::byte{0}) continue;
    if (!poison) poison = poison_mask(n, 0);
    poison.bytes()[i] = std::byte{origin};
  }
}

/// Where the running launch keeps error bounds: another build must access the same.
void expect_exact(const Vector& v, const char* what) {
  if (v.bound)
    fail_bounds_of(std::string("where ") + what + " depends on a value that others may not have");
}
bool keeps_bounds() { return op_state.error_model != nullptr; }

/// A mask or `other`: of as many elements as the access.
void check_shape(Planner& p, const Operation& op, int value, int of) {
  if (is_tensor(p.type(value)) != is_tensor(p.type(of)) ||
      (is_tensor(p.type(of)) && p.type(value).shape != p.type(of).shape))
    p.refuse(op);
}

void check_types(Planner& p, const Operation& op, int pointer, int value) {
  const Type& address = p.type(pointer);
  const Type& element = p.type(value);
  if (!address.pointer || !element.known || is_tensor(address) != is_tensor(element))
    p.unsupported(op, "of these types");
  check_shape(p, op, pointer, value);
  if (element.pointer) p.unsupported(op, "of pointers, which lie as integers");
  if (element.dtype == DType::boolean) p.unsupported(op, "of i1, which lies in bytes");
  if (register_bytes(address.pointee) != register_bytes(element.dtype) ||
      bit_width(element.dtype) < 8)
    p.unsupported(op, "of another type than its pointer's");
}

void check_mask(Planner& p, const Operation& op, int mask, int of) {
  check_shape(p, op, mask, of);
  if (p.type(mask).dtype != DType::boolean) p.refuse(op);
}

/// False where the tile is to be copied.
bool lend(Instance& x, int site, const Strided& lanes, std::int64_t width, int to) {
  Lent& lent = x.lent[static_cast<std::size_t>(to)];
  // Messages of NaN look at operands.
  if (op_state.trap_nan || lanes.address % width != 0 || lent.row % width != 0 ||
      lent.col % width != 0)
    return false;
  const std::byte* const at = x.memory.lend(x, site, lanes, width);
  if (at == nullptr) return false;
  x.vector(to) = {StorageHandle(Storage::borrow(at))};
  lent = {true, lent.row / width, lent.col / width};
  return true;
}

void plan_load(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (parts.size() != 3 || parts[0].size() != 1 || op.results.size() != 1) p.refuse(op);
  check_types(p, op, parts[0][0], op.results[0]);
  if (parts[1].size() > 1 || parts[2].size() > parts[1].size()) p.refuse(op);
  for (const int v : parts[1]) check_mask(p, op, v, op.results[0]);
  for (const int v : parts[2]) {
    check_shape(p, op, v, op.results[0]);
    p.expect_same_type(op, v, op.results[0]);
  }
  const int site = site_of(p, op, Site::Kind::load);
  const Type& t = p.type(op.results[0]);
  const std::int64_t width = register_bytes(t.dtype);
  const bool masked = !parts[1].empty();
  const bool has_other = !parts[2].empty();
  if (!is_tensor(t)) {
    const int pointer = p.scalar(parts[0][0]);
    const int mask = masked ? p.scalar(parts[1][0]) : -1;
    const int other = has_other ? p.scalar(parts[2][0]) : -1;
    const int to = p.new_scalar(op.results[0]);
    p.emit([=](Exec& x) {
      Scalar& s = x.scalars[static_cast<std::size_t>(to)];
      if (masked && x.integer(mask, DType::boolean, "a mask") == 0) {
        if (has_other)
          s = x.scalars[static_cast<std::size_t>(other)];
        else
          s = {.poison = x.undefined()};
        return;
      }
      const std::int64_t address = x.integer(pointer, DType::i64, "an address");
      StorageHandle undefined;
      s = {};
      Instance& i = instance(x);
      const bool counts = counts_alone(x, site);
      i.memory.load(i, site, &address, nullptr, 1, width, counts ? nullptr : s.bytes.data(),
                    undefined);
      if (counts) s.poison = kAnyRead;
      if (has_layouts(i, site)) i.memory.count_sectors(i, site, &address, nullptr, 1, width);
      if (undefined) s.poison = std::to_integer<Origin>(undefined.bytes()[0]);
      if (keeps_bounds()) {
        const StorageHandle bound = i.memory.bounds.load(i.memory, &address, nullptr, 1, width);
        s.bound = bound ? *floats(bound) : 0.f;
      }
    });
    p.carries_bounds();
    note_access(p, site, scalar_places(pointer, mask));
    p.reads_memory(op, -1);
    return;
  }
  const Access access = access_of(p, t, parts[0][0], masked ? parts[1][0] : -1);
  const int splat = has_other ? p.splatted(parts[2][0]) : -1;
  const int other = has_other && splat < 0 ? p.vector(parts[2][0]) : -1;
  const int to = p.new_vector(op.results[0]);
  access.read(p);
  if (other >= 0) p.read(other);
  const std::int64_t n = access.elems;
  const bool lends = may_be_lent(p, op.results[0]);
  // What the lanes that a mask leaves out have.
  const auto others = [=](Exec& x, Vector& v, const std::byte* on) {
    const auto bytes = static_cast<std::size_t>(n * width);
    if (!has_other) {
      std::memset(v.data.bytes(), 0, bytes);
      leave_out(v.poison, x.undefined(), on, n);
      return;
    }
    Vector made;
    if (splat >= 0) made = expanded(x, {Lane::Kind::splat, splat, 1, access.dtype}, n);
    const Vector& from = splat >= 0 ? made : x.vector(other);
    std::memcpy(v.data.bytes(), from.data.bytes(), bytes);
    v.bound = from.bound;
    for (std::int64_t e = 0; from.poison && e < n; ++e) {
      if (on[e] != std::byte{0} || from.poison.bytes()[e] == std::byte{0}) continue;
      if (!v.poison) v.poison = poison_mask(n, 0);
      v.poison.bytes()[e] = from.poison.bytes()[e];
    }
  };
  p.emit([=](Exec& x) {
    Instance& i = instance(x);
    bool full = false;
    if (counts_alone(x, site)) {
      if (const auto lanes = access.strided(x, full);
          !lanes || !i.memory.load(i, site, *lanes, width, nullptr)) {
        StorageHandle none;
        const Access::Lanes each = access.lanes(x);
        i.memory.load(i, site, each.addresses(), each.on(), n, width, nullptr, none);
      }
      if (has_layouts(i, site)) count_sectors(i, site, access, width);
      return;
    }
    Lent& lent = i.lent[static_cast<std::size_t>(to)];
    lent.lent = false;
    const auto strided = access.strided(x, full, lends ? &lent : nullptr);
    if (lends && strided && full && lend(i, site, *strided, width, to)) {
      if (has_layouts(i, site)) count_sectors(i, site, access, width);
      return;
    }
    Vector v{StorageHandle(Storage::allocate(static_cast<std::size_t>(n * width)))};
    if (strided) {
      if (!full) others(x, v, elements_of(x, access.mask).data.bytes());
      if (i.memory.load(i, site, *strided, width, v.data.bytes())) {
        x.vector(to) = std::move(v);
        if (has_layouts(i, site)) count_sectors(i, site, access, width);
        return;
      }
      v.poison = StorageHandle();
    }
    const Access::Lanes lanes = access.lanes(x);
    const std::byte* const on = lanes.on();
    if (on != nullptr) others(x, v, on);
    i.memory.load(i, site, lanes.addresses(), on, n, width, v.data.bytes(), v.poison);
    if (keeps_bounds()) {
      expect_exact(lanes.mask, "a mask");
      expect_exact(lanes.pointers, "an address");
      StorageHandle read = i.memory.bounds.load(i.memory, lanes.addresses(), on, n, width);
      if (v.bound && on != nullptr) {  // those of `other`
        for (std::int64_t e = 0; e < n; ++e) {
          if (on[e] != std::byte{0}) continue;
          if (!read) std::fill_n(floats(read = bound_storage(n)), n, 0.f);
          floats(read)[e] = v.bounds()[e];
        }
      }
      v.bound = std::move(read);
    }
    x.vector(to) = std::move(v);
    if (has_layouts(i, site)) i.memory.count_sectors(i, site, lanes.addresses(), on, n, width);
  });
  p.carries_bounds();
  note_access(p, site, access.where());
  p.reads_memory(op, -1);
  if (!lends) return;
  note_lent_load(
      p, {.site = site, .width = width, .to = to, .lanes = [access](const Exec& x, Lent& steps) {
            bool full = false;
            auto lanes = access.strided(x, full, &steps);
            if (!full) lanes.reset();
            return lanes;
          }});
}

void plan_store(Planner& p, const Operation& op) {
  if (op.operands.size() < 2 || op.operands.size() > 3 || !op.results.empty()) p.refuse(op);
  check_types(p, op, op.operands[0], op.operands[1]);
  if (op.operands.size() > 2) check_mask(p, op, op.operands[2], op.operands[1]);
  const int site = site_of(p, op, Site::Kind::store);
  const Type& t = p.type(op.operands[1]);
  const std::int64_t width = register_bytes(t.dtype);
  const bool masked = op.operands.size() > 2;
  if (!is_tensor(t)) {
    const int pointer = p.scalar(op.operands[0]);
    const int value = p.scalar(op.operands[1]);
    const int mask = masked ? p.scalar(op.operands[2]) : -1;
    p.emit([=](Exec& x) {
      if (masked && x.integer(mask, DType::boolean, "a mask") == 0) return;
      const std::int64_t address = x.integer(pointer, DType::i64, "an address");
      const Scalar& s = x.scalars[static_cast<std::size_t>(value)];
      const auto poison = std::byte{s.poison};
      Instance& i = instance(x);
      i.memory.store(i, site, &address, nullptr, 1, width, x.dry ? nullptr : s.bytes.data(),
                     &poison);
      if (keeps_bounds()) i.memory.bounds.store(i.memory, &address, nullptr, 1, width, &s.bound);
      if (has_layouts(i, site)) i.memory.count_sectors(i, site, &address, nullptr, 1, width);
    });
    p.carries_bounds();
    note_access(p, site, scalar_places(pointer, mask));
    return;
  }
  const Access access = access_of(p, t, op.operands[0], masked ? op.operands[2] : -1);
  const int value = p.vector(op.operands[1]);
  access.read(p);
  p.read(value);
  p.emit([=](Exec& x) {
    const Vector& v = x.vector(value);
    Instance& i = instance(x);
    bool full = false;
    if (const auto lanes = access.strided(x, full);
        lanes && !v.poison &&
        i.memory.store(i, site, *lanes, width, x.dry ? nullptr : v.data.bytes())) {
      if (has_layouts(i, site)) count_sectors(i, site, access, width);
      return;
    }
    const Access::Lanes lanes = access.lanes(x);
    i.memory.store(i, site, lanes.addresses(), lanes.on(), access.elems, width,
                   x.dry ? nullptr : v.data.bytes(),
                   v.poison && !x.dry ? v.poison.bytes() : nullptr);
    if (keeps_bounds()) {
      expect_exact(lanes.mask, "a mask");
      expect_exact(lanes.pointers, "an address");
      i.memory.bounds.store(i.memory, lanes.addresses(), lanes.on(), access.elems, width,
                            v.bounds());
    }
    if (has_layouts(i, site))
      i.memory.count_sectors(i, site, lanes.addresses(), lanes.on(), access.elems, width);
  });
  p.carries_bounds();
  note_access(p, site, access.where());
}

/// Integers that are addresses, of the caller's memory if they come from there.
void plan_int_to_ptr(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  if (p.type(op.operands[0]).dtype != DType::i64) p.unsupported(op, "of another type than i64");
  note_loaded_pointers(p);
  if (!is_tensor(p.type(op.results[0]))) {
    const int from = p.scalar(op.operands[0]);
    const int to = p.new_scalar(op.results[0]);
    p.emit([=](Exec& x) {
      const Scalar& s = x.scalars[static_cast<std::size_t>(from)];
      x.set(to, instance(x).memory.of_caller(x.get<std::int64_t>(from)), s.poison);
    });
    return;
  }
  const std::int64_t n = p.type(op.results[0]).shape.elems();
  const int from = p.vector(op.operands[0]);
  const int to = p.new_vector(op.results[0]);
  p.read(from);
  p.emit([=](Exec& x) {
    const Vector& v = x.vector(from);
    Vector r{StorageHandle(Storage::allocate(static_cast<std::size_t>(n) * sizeof(std::int64_t))),
             v.poison};
    const auto* const integers = reinterpret_cast<const std::int64_t*>(v.data.bytes());
    auto* const pointers = reinterpret_cast<std::int64_t*>(r.data.bytes());
    for (std::int64_t i = 0; i < n; ++i) pointers[i] = instance(x).memory.of_caller(integers[i]);
    x.vector(to) = std::move(r);
  });
}

/// Pointers of another type are the same addresses.
void plan_tt_bitcast(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& from = p.type(op.operands[0]);
  const Type& to = p.type(op.results[0]);
  if (from.pointer != to.pointer) p.unsupported(op, "of a pointer to no pointer");
  if (from.pointer)
    p.alias(op.results[0], op.operands[0]);
  else
    plan_bitcast(p, op);
}

}  // namespace

Rules memory_rules() {
  static const std::vector<Rule> rules = {
      {"tt.addptr", "pointer + offset, in elements", true, plan_addptr},
      {"tt.load",
       "where the mask is set what the pointers point to, elsewhere `other`, or undefined", true,
       plan_load},
      {"tt.store", "where the mask is set", false, plan_store},
      {"tt.bitcast", "the same bits as another type", true, plan_tt_bitcast},
      {"tt.int_to_ptr", "an address as a pointer", true, plan_int_to_ptr},
      {"tt.ptr_to_int", "a pointer as its address", true, plan_same},
  };
  return rules;
}

}  // namespace tessera::triton
