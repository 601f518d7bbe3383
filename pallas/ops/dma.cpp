// Copies, semaphores and devices, on the machine of sim/machine.
#include "pallas/adding.hpp"
#include "pallas/rules.hpp"
#include "program/memory.hpp"
#include "sim/run.hpp"
#include "sim/tiles/async.hpp"

namespace tessera::pallas {

namespace {

Semaphore& semaphore(const MemRef& m) {
  if (m.semaphores == nullptr) fail_ref("a buffer where a semaphore is wanted");
  if (m.view.extents.elems() != 1) fail_ref("an array of semaphores where one is wanted");
  return *(*m.semaphores)[static_cast<std::size_t>(m.view.offset)];
}
SemRef sem_ref(Exec& x, const MemRef& m) {
  Semaphore& s = semaphore(m);
  return SemRef({&s}, x.machine_core(), s.name.c_str());
}
/// A device or core of the mesh, or kThis where the op names none.
int target(Exec& x, int slot, const char* what) {
  return slot < 0 ? kThis : static_cast<int>(x.integer(slot, DType::i32, what));
}

/// A core of the target device.
struct TargetCore {
  int core = -1;  ///< slots
  int subcore = -1;
  std::size_t kind = 0;  ///< of Program::subcores
  bool other = false;    ///< that kind, whatever the core's own is

  int on(Exec& x) const {
    if (x.program.subcores.empty()) return target(x, core, "a core id");
    if (core < 0 && subcore < 0 && !other) return kThis;
    const std::int64_t cell = x.machine_core().core;
    const Subcores& mine = kind_of(x.program, cell);
    const Subcores& theirs = other ? x.program.subcores[kind] : mine;
    std::int64_t on_core = (cell - mine.first) / mine.of_a_core();
    std::int64_t number =
        mine.vectors && theirs.vectors ? (cell - mine.first) % mine.of_a_core() : 0;
    if (core >= 0) on_core = x.integer(core, DType::i32, "a core id");
    if (subcore >= 0) number = x.integer(subcore, DType::i32, "a subcore id");
    const bool there =
        on_core >= 0 && on_core < theirs.grid.front() && number >= 0 && number < theirs.of_a_core();
    constexpr int kNone = -1;
    return there ? static_cast<int>(theirs.first + on_core * theirs.of_a_core() + number) : kNone;
  }
};

struct Slots {
  int from = -1;
  int sent = -1;
  int to = -1;
  int landed = -1;
  int device = -1;
  TargetCore core;
};
int one(Planner& p, const Operation& op, const std::vector<int>& values, bool scalar) {
  if (values.empty()) return -1;
  if (values.size() > 1) p.unsupported(op, "with several values in one segment");
  return scalar ? p.scalar(values[0]) : p.memref(values[0]);
}
int device_of(Planner& p, const Operation& op, const std::vector<int>& values) {
  p.program().meets_devices |= !values.empty();
  p.program().reaches_devices |= !values.empty();
  return one(p, op, values, true);
}
/// The core that an op names, where `memref` is.
TargetCore target_core(Planner& p, const Operation& op, const std::vector<int>& core,
                       const std::vector<int>& subcore, int memref) {
  TargetCore t;
  t.core = one(p, op, core, true);
  t.subcore = one(p, op, subcore, true);
  const std::string& kind = p.type(memref).core;
  const std::vector<Subcores>& kinds = p.program().subcores;
  if (kinds.empty()) {
    if (t.subcore >= 0) p.unsupported(op, "to a subcore");
    return t;
  }
  if (!kind.empty()) {
    while (t.kind < kinds.size() && kinds[t.kind].name() != kind) ++t.kind;
    if (t.kind == kinds.size()) p.unsupported(op, "to a core that runs another kernel: " + kind);
    t.other = true;
  }
  const bool vectors = t.other ? kinds[t.kind].vectors : kinds.size() == 1 && kinds[0].vectors;
  if (vectors && t.core >= 0 && t.subcore < 0) p.unsupported(op, "to a core without its subcore");
  return t;
}

void plan_enqueue(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (parts.size() < 6 || parts[0].size() != 1 || parts[2].size() != 1) p.refuse(op);
  if (parts[3].empty()) p.unsupported(op, "without a semaphore");
  for (std::size_t i = 7; i < parts.size(); ++i) {
    if (!parts[i].empty()) p.unsupported(op, "with operands of a newer version");
  }
  Slots s;
  s.from = one(p, op, parts[0], false);
  s.sent = one(p, op, parts[1], false);
  s.to = one(p, op, parts[2], false);
  s.landed = one(p, op, parts[3], false);
  s.device = device_of(p, op, parts[4]);
  s.core =
      target_core(p, op, parts[5], parts.size() > 6 ? parts[6] : std::vector<int>{}, parts[2][0]);
  const auto priority = static_cast<int>(p.integer_or(op, "priority", 0));
  p.program().asynchronous = true;
  p.emit([=](Exec& x) {
    const MemRef& from = x.memref(s.from);
    const MemRef& to = x.memref(s.to);
    if (from.buffer == nullptr || to.buffer == nullptr) fail_ref("a copy of semaphores");
    // What the body may decide by: only what nobody computes is known.
    if (to.buffer->space == Space::smem && x.unknown(from.buffer->space) &&
        (from.buffer->space != Space::hbm || from.buffer->written))
      x.fail_value();
    const Here at = x.here();
    const SemRef landed = sem_ref(x, x.memref(s.landed));
    if (s.sent < 0) {
      const std::vector<PaddedCopy> copies = padded_copies(x, from, to);
      const MemRef& array = from.outside.in_tiles() ? from : to;
      for (const PaddedCopy& part : copies) {
        AsyncCopy copy(part.from, part.to, landed, at);
        if (part.padding)
          copy.moves_padding();
        else
          copy.makes_up(Ref(*array.buffer, array.view));
        copy.start(priority, at);
      }
      if (copies.empty()) AsyncCopy(readable(x, from), to.ref(), landed, at).start(priority, at);
      return;
    }
    const SemRef sent = sem_ref(x, x.memref(s.sent));
    AsyncCopy(readable(x, from), to.ref(), sent, landed, target(x, s.device, "a device id"),
              s.core.on(x), at)
        .start(priority, at);
  });
}

bool in_vmem(Planner& p, int value) { return p.type(value).space == "vmem"; }

/// Row i of a memref.
MemRef row_of(const MemRef& m, std::int64_t i) {
  const std::int64_t rows = m.view.extents[0];
  if (i < 0 || i >= rows) fail_bounds(m, 0, i, 1, rows);
  MemRef row = m;
  row.view = m.shape().slice(0, i, 1).view();
  return row;
}

/// Of a SparseCore: the rows of an array in HBM that a vector or a memref names, to or from rows of
/// VMEM, each a copy of its own on one semaphore (JAX 0.10.2, pallas/mosaic/sc_lowering.py).
void plan_enqueue_indirect(Planner& p, const Operation& op) {
  const bool leaves_out = op.operands.size() == 5;
  p.expect(op, leaves_out ? 5 : 4, 0);
  const DType dtype = p.type(op.operands[0]).dtype;
  Adding add = nullptr;
  if (p.integer_or(op, "add", 0) != 0) {
    if (bit_width(dtype) >= 8) add = adding(dtype);
    if (add == nullptr) p.unsupported(op, std::string("that adds ") + name(dtype));
  }
  const bool gathers = in_vmem(p, op.operands[1]);
  if (gathers == in_vmem(p, op.operands[0])) p.unsupported(op, "between memories of one kind");
  const int from = p.memref(op.operands[0]);
  const int to = p.memref(op.operands[1]);
  const int landed = p.memref(op.operands[3]);
  const Type& type = p.type(op.operands[2]);
  if (type.dtype != DType::i32 || type.shape.rank != 1)
    p.unsupported(op, "with offsets of this type");
  const bool loads = type.kind == Type::Kind::memref;
  const int offsets = loads ? p.memref(op.operands[2]) : p.vector(op.operands[2]);
  if (!loads) p.read(offsets);
  const int left_out = leaves_out ? p.scalar(op.operands[4]) : -1;
  p.program().asynchronous = true;
  p.emit([=](Exec& x) {
    if (x.dry) x.fail_value();
    const Vector rows = loads ? load(x, x.memref(offsets).ref()) : x.vector(offsets);
    const std::int64_t n = loads ? x.memref(offsets).view.extents.elems() : type.shape.elems();
    const MemRef& near = x.memref(gathers ? to : from);
    const MemRef& far = x.memref(gathers ? from : to);
    if (near.view.extents.rank == 0 || near.view.extents[0] != n)
      fail_ref("as many rows of VMEM as offsets are wanted for an indirect copy");
    const SemRef sem = sem_ref(x, x.memref(landed));
    if (add != nullptr && !(near.buffer->bounds.empty() && far.buffer->bounds.empty()))
      fail_bounds_of("through a copy that adds");
    const std::int64_t ignored =
        left_out < 0 ? 0 : x.integer(left_out, DType::i32, "an offset to leave out");
    for (std::int64_t i = 0; i < n; ++i) {
      if (const Origin o = rows.poison_at(i)) fail_poison(o, "an offset of an indirect copy");
      std::int32_t row = 0;
      std::memcpy(&row, rows.data.bytes() + i * 4, sizeof row);
      const MemRef here = row_of(near, i);
      if (left_out >= 0 && row == ignored) {
        // Nothing moves, and the wait takes its bytes all the same.
        MachineCore& c = x.machine_core();
        c.machine->signal(c, sem.one(x.here()), here.shape().bytes(), site_of(c, x.here()));
        continue;
      }
      const MemRef there = row_of(far, row);
      AsyncCopy((gathers ? there : here).ref(), (gathers ? here : there).ref(), sem, x.here())
          .adds(add)
          .start(0, x.here());
    }
  });
}

/// Takes the bytes of a memref off the semaphore, whatever put them there.
void emit_wait(Planner& p, int semaphore_value, int bytes_of) {
  const int sem = p.memref(semaphore_value);
  const int to = p.memref(bytes_of);
  p.program().asynchronous = true;
  p.emit([=](Exec& x) {
    MachineCore& c = x.machine_core();
    const MemRef& m = x.memref(to);
    if (m.buffer == nullptr) fail_ref("a wait for a copy of semaphores");
    const std::int64_t bytes = m.shape().bytes();
    Semaphore& s = semaphore(x.memref(sem));
    if (s.kind != Semaphore::Kind::dma)
      fail_ref("a wait for the bytes of a copy on a semaphore that counts signals");
    if (bytes > 0) c.machine->wait(c, s, bytes, site_of(c, x.here()));
  });
}
/// The bytes of its destination.
void plan_wait(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (parts.size() < 3 || parts[0].size() != 1 || parts[2].size() != 1) p.refuse(op);
  emit_wait(p, parts[0][0], parts[2][0]);
}
/// The bytes of its destination, or of what was sent.
void plan_wait_side(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (parts.size() < 4 || parts[0].size() != 1 || parts[2].size() != 1) p.refuse(op);
  const std::size_t side = p.integer_or(op, "wait_target", 1) != 0 ? 2 : 0;
  if (parts[side + 1].size() != 1) p.unsupported(op, "without a semaphore");
  emit_wait(p, parts[side + 1][0], parts[side][0]);
}
/// The bytes of the side in VMEM: the other one is the whole array.
void plan_wait_indirect(Planner& p, const Operation& op) {
  p.expect(op, 3, 0);
  emit_wait(p, op.operands[0], op.operands[in_vmem(p, op.operands[2]) ? 2 : 1]);
}

void plan_signal(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (parts.size() < 4 || parts[0].size() != 1 || parts[1].size() != 1) p.refuse(op);
  for (std::size_t i = 5; i < parts.size(); ++i) {
    if (!parts[i].empty()) p.unsupported(op, "with operands of a newer version");
  }
  const int sem = p.memref(parts[0][0]);
  const int amount = p.scalar(parts[1][0]);
  const int device = device_of(p, op, parts[2]);
  const TargetCore core =
      target_core(p, op, parts[3], parts.size() > 4 ? parts[4] : std::vector<int>{}, parts[0][0]);
  if (op.find("core_type") != nullptr) p.unsupported(op, "to another kind of core");
  p.program().asynchronous = true;
  p.emit([=](Exec& x) {
    semaphore_signal(sem_ref(x, x.memref(sem)),
                     static_cast<int>(x.integer(amount, DType::i32, "a signal's amount")),
                     target(x, device, "a device id"), core.on(x), x.here());
  });
}
void plan_sem_wait(Planner& p, const Operation& op) {
  p.expect(op, 2, 0);
  const int sem = p.memref(op.operands[0]);
  const int amount = p.scalar(op.operands[1]);
  p.program().asynchronous = true;
  p.emit([=](Exec& x) {
    const auto n = static_cast<int>(x.integer(amount, DType::i32, "a wait's amount"));
    if (n != 0) semaphore_wait(sem_ref(x, x.memref(sem)), n, x.here());
  });
}
void plan_sem_read(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const int sem = p.memref(op.operands[0]);
  const int to = p.new_scalar(op.results[0]);
  p.program().asynchronous = true;
  p.emit([=](Exec& x) {
    x.set(to, static_cast<std::int32_t>(semaphore_read(sem_ref(x, x.memref(sem)), x.here())));
  });
}
void plan_barrier_semaphore(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const int to = p.new_memref(op.results[0]);
  p.program().asynchronous = true;
  p.program().meets_devices = true;
  p.program().has_barrier = true;
  p.emit([=](Exec& x) {
    MachineCore& c = x.machine_core();
    if (x.barrier.empty()) x.barrier = {&c.machine->barrier(c, x.collective_id)};
    MemRef m;
    m.semaphores = &x.barrier;
    x.memref(to) = m;
  });
}
void plan_device_id(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const int to = p.new_scalar(op.results[0]);
  p.program().meets_devices = true;
  p.emit([=](Exec& x) { x.set(to, std::int32_t{x.core == nullptr ? 0 : x.core->device}); });
}
void plan_core_id(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const int to = p.new_scalar(op.results[0]);
  p.emit([=](Exec& x) { x.set(to, std::int32_t{x.core == nullptr ? 0 : x.core->core}); });
}

}  // namespace

Rules dma_rules() {
  static const std::vector<Rule> rules = {
      {"tpu.enqueue_dma", "starts a copy, here or to another device", false, plan_enqueue},
      {"tpu.wait_dma2", "waits for the bytes of a copy", false, plan_wait},
      {"tpu.wait_dma", "waits for the bytes of a copy, those that landed or those that were sent",
       false, plan_wait_side},
      {"tpu.enqueue_indirect_dma",
       "copies the rows that offsets name, or adds them, on a SparseCore", false,
       plan_enqueue_indirect, Dry::runs},
      {"tpu.wait_indirect_dma", "waits for the bytes of such a copy", false, plan_wait_indirect},
      {"tpu.sem_signal", "adds to a semaphore, here or elsewhere", false, plan_signal},
      {"tpu.sem_wait", "waits until a semaphore has an amount, and takes it", false, plan_sem_wait},
      {"tpu.sem_read", "what a semaphore holds", false, plan_sem_read},
      {"tpu.sem_barrier", "the barrier semaphore of the call's collective id", false,
       plan_barrier_semaphore},
      {"tpu.device_id", "this device", true, plan_device_id},
      {"tpu.core_id", "this core of its device", true, plan_core_id},
  };
  return rules;
}

}  // namespace tessera::pallas
