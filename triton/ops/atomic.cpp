// tt.atomic_*: lane after lane, in row-major order; programs in the order of the grid.
#include "program/elements.hpp"
#include "sim/numerics/op_state.hpp"
#include "triton/memory.hpp"
#include "triton/operand.hpp"
#include "triton/plan_kernel.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

/// Numbers of tt.atomic_rmw's attribute.
enum Rmw : std::int64_t {
  kAnd = 1,
  kOr,
  kXor,
  kAdd,
  kFadd,
  kMax,
  kMin,
  kUmax,
  kUmin,
  kExchange,
};
/// Of `sem`.
enum Order : std::int64_t { kRelaxed = 1, kAcquire, kRelease, kAcquireRelease };

using Update = void (*)(std::byte* at, const std::byte* value);

template <class T>
void store(std::byte* at, T v) {
  std::memcpy(at, &v, sizeof(T));
}
template <class T>
T read(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof(T));
  return v;
}

template <class T>
Update integer_update(std::int64_t rmw) {
  using U = std::make_unsigned_t<T>;
  switch (rmw) {
    case kAnd:
      return [](std::byte* at, const std::byte* v) { store<U>(at, read<U>(at) & read<U>(v)); };
    case kOr:
      return [](std::byte* at, const std::byte* v) { store<U>(at, read<U>(at) | read<U>(v)); };
    case kXor:
      return [](std::byte* at, const std::byte* v) { store<U>(at, read<U>(at) ^ read<U>(v)); };
    case kAdd:
      return [](std::byte* at, const std::byte* v) {
        store<U>(at, static_cast<U>(read<U>(at) + read<U>(v)));
      };
    case kMax:
      return
          [](std::byte* at, const std::byte* v) { store(at, std::max(read<T>(at), read<T>(v))); };
    case kMin:
      return
          [](std::byte* at, const std::byte* v) { store(at, std::min(read<T>(at), read<T>(v))); };
    case kUmax:
      return
          [](std::byte* at, const std::byte* v) { store(at, std::max(read<U>(at), read<U>(v))); };
    case kUmin:
      return
          [](std::byte* at, const std::byte* v) { store(at, std::min(read<U>(at), read<U>(v))); };
    case kExchange:
      return [](std::byte* at, const std::byte* v) { store(at, read<U>(v)); };
    default:
      return nullptr;
  }
}

Update update_of(std::int64_t rmw, DType d) {
  if (rmw == kFadd || (rmw == kExchange && is_float(d))) {
    Update u = nullptr;
    visit_dtype(d, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (kIsFloat<T> && sizeof(T) >= 2) {
        if (rmw == kExchange)
          u = [](std::byte* at, const std::byte* v) { store(at, read<T>(v)); };
        else
          u = [](std::byte* at, const std::byte* v) {
            using Sum = std::conditional_t<sizeof(T) == 8, double, float>;
            store(at, convert<T>(convert<Sum>(read<T>(at)) + convert<Sum>(read<T>(v))));
          };
      }
    });
    return u;
  }
  if (d == DType::i32) return integer_update<std::int32_t>(rmw);
  if (d == DType::i64) return integer_update<std::int64_t>(rmw);
  return nullptr;
}

/// Lanes of an op that updates memory: `update` at the bytes of each that is on; the result has
/// what was there. `does` says what it counts as; what it stores is defined then.
template <class F>
void each_lane(Exec& x, int site, Memory::Atomic does, std::int64_t n, std::int64_t width,
               std::int64_t order, const Vector& pointers, const std::byte* mask,
               const Vector& value, Vector& before, F&& update) {
  Instance& i = instance(x);
  const auto* const addresses = reinterpret_cast<const std::int64_t*>(pointers.data.bytes());
  i.memory.begin_atomic(i, addresses, mask, n, width, does);
  std::size_t last = SIZE_MAX;
  for (std::int64_t e = 0; e < n; ++e) {
    if (mask != nullptr && mask[e] == std::byte{0}) {
      if (!before.poison) before.poison = poison_mask(n, 0);
      before.poison.bytes()[e] = std::byte{x.undefined()};
      continue;
    }
    if (const Origin o = pointers.poison_at(e)) fail_poison(o, "an address", x.wrapped());
    if (const Origin o = value.poison_at(e)) fail_poison(o, "what an atomic adds");
    std::byte* const at = i.memory.atomic(i, site, addresses[e], width, last, does);
    if (order == kAcquire || order == kAcquireRelease) i.memory.acquire(i, addresses[e]);
    i.memory.note_atomic(i, site, addresses[e], width);
    if (const Origin o = i.memory.undefined_at(addresses[e], width)) {
      if (!before.poison) before.poison = poison_mask(n, 0);
      before.poison.bytes()[e] = std::byte{o == kAnyRead ? x.undefined() : o};
    }
    std::memcpy(before.data.bytes() + e * width, at, static_cast<std::size_t>(width));
    update(at, e);
    if (does == Memory::Atomic::stores) i.memory.define(addresses[e], width);
    if (std::memcmp(before.data.bytes() + e * width, at, static_cast<std::size_t>(width)) != 0)
      i.memory.changed(i);
    else if (does != Memory::Atomic::stores)
      Memory::left_unchanged(i, addresses[e]);
    if (order == kRelease || order == kAcquireRelease) i.memory.release(i, addresses[e]);
  }
  // What others wrote must be seen: the L1 keeps nothing from before.
  if (order == kAcquire || order == kAcquireRelease) i.loaded.clear();
}

/// Of a launch that keeps error bounds: lanes that an atomic changed from `before`, which nobody
/// looks at. Only sums of floats go on in bounds.
void bound_lanes(Instance& x, DType dtype, bool sum, std::int64_t n, const Vector& pointers,
                 const std::byte* mask, const Vector& value, const Vector& before) {
  const auto* const addresses = reinterpret_cast<const std::int64_t*>(pointers.data.bytes());
  const std::int64_t width = register_bytes(dtype);
  if (pointers.bound)
    fail_bounds_of("where an address depends on a value that others may not have");
  for (std::int64_t e = 0; e < n; ++e) {
    if (mask != nullptr && mask[e] == std::byte{0}) continue;
    const float bound = value.bound ? value.bounds()[e] : 0.f;
    if (!sum) {
      if (bound > 0 || x.memory.bounds.load(x.memory, &addresses[e], nullptr, 1, width))
        fail_bounds_of("through an atomic that is no sum");
      continue;
    }
    const double term = element(value, dtype, e);
    x.memory.bounds.add(x.memory, addresses[e], dtype, element(before, dtype, e), term, bound);
  }
}

/// Of a dry run: what was there is not known, and may decide nothing.
void count(Instance& x, int site, Memory::Atomic does, std::int64_t n, std::int64_t width,
           const Vector& pointers, const Vector& mask) {
  if (x.memory.sites()[static_cast<std::size_t>(site)].wanted) x.fail_value();
  const auto* const addresses = reinterpret_cast<const std::int64_t*>(pointers.data.bytes());
  x.memory.begin_atomic(x, addresses, mask.data ? mask.data.bytes() : nullptr, n, width, does);
  std::size_t last = SIZE_MAX;
  for (std::int64_t e = 0; e < n; ++e) {
    if (mask.data && mask.data.bytes()[e] == std::byte{0}) continue;
    if (const Origin o = pointers.poison_at(e)) {
      if (read_of(o) != kWrapped) x.fail_value();
      fail_poison(o, "an address", x.wrapped());
    }
    x.memory.atomic(x, site, addresses[e], width, last, does);
  }
}
StepNote::Slot place(const Operand& o, DType dtype) {
  // Of no operand: one that nothing makes, and always known.
  if (o.slot < 0) return {.slot = 0, .dtype = dtype, .shape = {}, .regular = true};
  return {o.tensor ? Type::Kind::vector : Type::Kind::scalar, o.slot, dtype, {}};
}

template <class F>
void plan_update(Planner& p, const Operation& op, int values, int mask_at, bool sum,
                 F&& make_update, Memory::Atomic does = Memory::Atomic::updates) {
  const bool gives = !op.results.empty();
  const Type& t = p.type(gives ? op.results[0] : op.operands[1]);
  const bool tensor = is_tensor(t);
  for (const int v : op.operands) {
    if (is_tensor(p.type(v)) != tensor || (tensor && p.type(v).shape != t.shape)) p.refuse(op);
  }
  if (register_bytes(p.type(op.operands[0]).pointee) != register_bytes(t.dtype))
    p.unsupported(op, "of another type than its pointer's");
  const std::int64_t n = tensor ? t.shape.elems() : 1;
  const std::int64_t width = register_bytes(t.dtype);
  const std::int64_t order = p.integer(op, "sem");
  const int site = site_of(p, op, Site::Kind::atomic);
  const Operand pointer = operand(p, op.operands[0]);
  std::array<Operand, 2> value;
  for (int i = 0; i < values; ++i)
    value[static_cast<std::size_t>(i)] = operand(p, op.operands[static_cast<std::size_t>(1 + i)]);
  Operand mask;
  if (mask_at > 0 && op.operands.size() > static_cast<std::size_t>(mask_at))
    mask = operand(p, op.operands[static_cast<std::size_t>(mask_at)]);
  const Operand to = gives ? new_result(p, op.results[0]) : Operand();
  for (const Operand& o : {pointer, value[0], value[1], mask}) {
    if (o.tensor) p.read(o.slot);
  }
  const bool looked_at = gives && p.used(op.results[0]);
  const DType dtype = t.dtype;
  p.emit([=](Exec& x) {
    const Vector addresses = pointer.get(x);
    const Vector on = mask.get(x);
    if (on.data) {
      if (const Origin o = on.first_poison(0, n)) fail_poison(o, "a mask");
    }
    if (x.dry) {
      count(instance(x), site, does, n, width, addresses, on);
      if (gives && !to.tensor) x.set(to.slot, std::int64_t{0}, kAnyRead);
      return;
    }
    const Vector a = value[0].get(x);
    const Vector b = value[1].get(x);
    Vector before{StorageHandle(
        Storage::allocate(static_cast<std::size_t>(std::max<std::int64_t>(8, n * width))))};
    std::memset(before.data.bytes(), 0,
                static_cast<std::size_t>(std::max<std::int64_t>(8, n * width)));
    each_lane(x, site, does, n, width, order, addresses, on.data ? on.data.bytes() : nullptr, a,
              before, make_update(a, b, width));
    if (op_state.error_model != nullptr) {
      if (looked_at) fail_bounds_of("of what an atomic found: that depends on who came first");
      if (on.bound) fail_bounds_of("where a mask depends on a value that others may not have");
      bound_lanes(instance(x), dtype, sum, n, addresses, on.data ? on.data.bytes() : nullptr, a,
                  before);
    }
    if (gives) to.set(x, std::move(before), width);
  });
  p.carries_bounds();
  note_access(p, site, {place(pointer, DType::i64), place(mask, DType::boolean)});
  p.reads_memory(op, -1);
}

void plan_rmw(Planner& p, const Operation& op) {
  if (op.operands.size() < 2 || op.operands.size() > 3 || op.results.size() != 1) p.refuse(op);
  const Type& t = p.type(op.results[0]);
  p.expect_same_type(op, op.operands[1], op.results[0]);
  const std::int64_t rmw = p.integer(op, "atomic_rmw_op");
  if (op.operands.size() > 2 && p.type(op.operands[2]).dtype != DType::boolean) p.refuse(op);
  const Update update = update_of(rmw, t.dtype);
  if (update == nullptr || !p.type(op.operands[0]).pointer)
    p.unsupported(op, "of this kind and type");
  const bool sum = rmw == kFadd;
  plan_update(p, op, 1, 2, sum, [update](const Vector& a, const Vector&, std::int64_t width) {
    return [&a, update, width](std::byte* at, std::int64_t e) {
      update(at, a.data.bytes() + e * width);
    };
  });
}

void plan_cas(Planner& p, const Operation& op) {
  p.expect(op, 3, 1);
  p.expect_same_type(op, op.operands[1], op.results[0]);
  p.expect_same_type(op, op.operands[2], op.results[0]);
  if (!p.type(op.operands[0]).pointer) p.unsupported(op, "of no pointer");
  note_lock(p);
  plan_update(p, op, 2, 0, false, [](const Vector& a, const Vector& b, std::int64_t width) {
    return [&a, &b, width](std::byte* at, std::int64_t e) {
      const auto size = static_cast<std::size_t>(width);
      if (std::memcmp(at, a.data.bytes() + e * width, size) == 0)
        std::memcpy(at, b.data.bytes() + e * width, size);
    };
  });
}

void plan_load(Planner& p, const Operation& op) {
  if (op.operands.empty() || op.operands.size() > 2 || op.results.size() != 1 ||
      !p.type(op.operands[0]).pointer)
    p.refuse(op);
  plan_update(
      p, op, 0, 1, false,
      [](const Vector&, const Vector&, std::int64_t) { return [](std::byte*, std::int64_t) {}; },
      Memory::Atomic::loads);
}

void plan_store(Planner& p, const Operation& op) {
  if (op.operands.size() < 2 || op.operands.size() > 3 || !op.results.empty() ||
      !p.type(op.operands[0]).pointer)
    p.refuse(op);
  plan_update(
      p, op, 1, 2, false,
      [](const Vector& a, const Vector&, std::int64_t width) {
        return [&a, width](std::byte* at, std::int64_t e) {
          std::memcpy(at, a.data.bytes() + e * width, static_cast<std::size_t>(width));
        };
      },
      Memory::Atomic::stores);
}

/// Until memory is as expected; without patience (a timeout of 0): whether it is.
void plan_poll(Planner& p, const Operation& op) {
  if (op.operands.size() < 2 || op.operands.size() > 3 || op.results.size() != 1) p.refuse(op);
  const Type& t = p.type(op.operands[1]);
  if (is_tensor(t) || !p.type(op.operands[0]).pointer) p.unsupported(op, "of these types");
  note_lock(p);
  const std::int64_t width = register_bytes(t.dtype);
  const std::int64_t order = p.integer(op, "sem");
  const int site = site_of(p, op, Site::Kind::atomic);
  const int pointer = p.scalar(op.operands[0]);
  const int expected = p.scalar(op.operands[1]);
  const bool timed = op.operands.size() > 2;
  const int timeout = timed ? p.scalar(op.operands[2]) : -1;
  const DType timeout_type = timed ? p.type(op.operands[2]).dtype : DType::i64;
  const int to = p.new_scalar(op.results[0]);
  p.emit([=](Exec& x) {
    if (op_state.error_model != nullptr) fail_bounds_of("of programs that wait for one another");
    Instance& i = instance(x);
    const std::int64_t address = x.integer(pointer, DType::i64, "an address");
    const Scalar& wanted = x.scalars[static_cast<std::size_t>(expected)];
    if (wanted.poison != 0) fail_poison(wanted.poison, "what an atomic waits for");
    if (timed && x.integer(timeout, timeout_type, "a timeout") != 0)
      fail_ref("tt.atomic_poll with a timeout that is not 0: how long programs take is not known");
    for (;;) {
      i.memory.begin_atomic(i, &address, nullptr, 1, width);
      std::size_t last = SIZE_MAX;
      const std::byte* const at = i.memory.atomic(i, site, address, width, last);
      if (x.dry) {  // another program may do it
        x.set(to, true);
        return;
      }
      if (const Origin o = i.memory.undefined_at(address, width))
        fail_poison(o == kAnyRead ? x.undefined() : o, "a wait");
      const bool same = std::memcmp(at, wanted.bytes.data(), static_cast<std::size_t>(width)) == 0;
      if (order == kAcquire || order == kAcquireRelease) i.loaded.clear();
      if (same && (order == kAcquire || order == kAcquireRelease)) i.memory.acquire(i, address);
      if (same || timed) i.memory.note_atomic(i, site, address, width);
      x.set(to, same);
      if (same || timed) return;
      Memory::left_unchanged(i, address);
    }
  });
  note_access(p, site, {{Type::Kind::scalar, pointer, DType::i64, {}}});
  p.reads_memory(op, -1);
}

}  // namespace

Rules atomic_rules() {
  static const std::vector<Rule> rules = {
      {"tt.atomic_rmw", "updates memory and gives what was there", false, plan_rmw},
      {"tt.atomic_load", "what is there", false, plan_load},
      {"tt.atomic_store", "writes it", false, plan_store},
      {"tt.atomic_poll", "waits until memory is as expected", false, plan_poll},
      {"tt.atomic_cas", "stores if memory is as expected; gives what was there", false, plan_cas},
  };
  return rules;
}

}  // namespace tessera::triton
