#include "sim/tiles/async.hpp"

namespace tessera {

void track_access(Block& block, int row, int col, int rows, int cols, bool write) {
  MachineCore& core = *block.on;
  if (!core.machine->tracks(block)) return;
  Access a;
  a.box = Ref(block).slice(0, row, rows).slice(1, col, cols).box();
  a.write = write;
  a.site = site_of_caller(core);
  a.kind = write ? "write" : "read";
  core.machine->access(core, block, std::move(a));
}

void fail_scope(MachineCore& core, const Buffer& block) {
  throw KernelError(use_after_scope(block.name, site_of_caller(core)));
}

namespace detail {

void check_hbm_slice(const OperandPlan& op, const DeviceSpec& device, const Ref& ref, int dim,
                     std::int64_t start, std::int64_t size, std::int64_t step) {
  const std::int64_t extent = ref.extents()[dim];
  const std::string what = "indices of dim " + std::to_string(dim);
  if (start < 0 || size < 0 || step < 1 || (size > 0 && start + (size - 1) * step >= extent)) {
    const std::int64_t reach = size > 0 ? (size - 1) * step + 1 : 0;
    throw KernelError(oob_index(op, what.c_str(), start, reach, extent));
  }
  const NativeTile tile = device.tile(ref.dtype());
  if (tile.lanes == 1 || ref.extents().rank < 2) return;
  if (dim == ref.extents().rank - 1 && start % tile.lanes != 0) {
    throw KernelError(misaligned_slice(op, "column", static_cast<int>(start), tile.lanes));
  }
  if (dim != ref.extents().rank - 2 || bit_width(ref.dtype()) >= 32) return;
  // Rows that share words lie in one tile, or begin with one.
  const std::int64_t packed = 32 / bit_width(ref.dtype());
  const std::int64_t rows = array_tile(device, ref.dtype(), ref.extents()).sublanes;
  const std::int64_t unit = start % rows + size <= rows ? packed : rows;
  if (start % unit != 0)
    throw KernelError(misaligned_slice(op, "row", static_cast<int>(start), static_cast<int>(unit)));
}

void fail_rank(const OperandPlan& op, int given, int rank) {
  throw KernelError(shape_mismatch("slice", op.name + " has " + std::to_string(rank) +
                                                " dims, and " + std::to_string(given) +
                                                " runs are given"));
}

namespace {

/// The global number of a core of another device, checked.
int target_core(const MachineCore& c, int device, int core, const Site& site) {
  const Machine& m = *c.machine;
  const int d = device == kThis ? c.device : device;
  const int k = core == kThis ? c.core : core;
  if (d < 0 || d >= m.devices() || k < 0 || k >= m.cores_per_device()) {
    throw KernelError(bad_device_id(c, d, k, site));
  }
  return d * m.cores_per_device() + k;
}

void record(MachineCore& c, Transfer& t, const std::optional<Ref>& whole) {
  const DeviceSpec& device = step_context->plan->device;
  Movement m = copy_movement(t.from, t.to, device);
  if (whole) m.padded_bytes = copied_bytes(device, *whole);
  t.padded_bytes = m.padded_bytes;
  t.ref = m.ref;
  t.to_ref = m.to_ref;
  m.why = t.remote() ? Why::remote_dma : Why::dma;
  m.device = c.device;
  const int target = t.elsewhere >= 0 ? c.machine->core(t.elsewhere).device : t.to.buffer().device;
  if (t.remote() && target != c.device) m.to_device = target;
  m.core = c.core;
  m.step = *c.step;
  c.ledger->record(m);
}

}  // namespace
}  // namespace detail

Movement copy_movement(const Ref& from, const Ref& to, const DeviceSpec& device) {
  Movement m;
  m.from = from.buffer().space;
  m.to = to.buffer().space;
  m.ref = from.buffer().ledger_ref;
  m.to_ref = to.buffer().ledger_ref;
  // What moves between HBM and VMEM is counted once, where the array is.
  if (m.from == Space::hbm && m.to != Space::hbm) m.to_ref = -1;
  if (m.from != Space::hbm && m.to == Space::hbm) m.ref = std::exchange(m.to_ref, -1);
  m.bytes = from.bytes();
  m.padded_bytes = copied_bytes(device, m.from != Space::hbm && m.to == Space::hbm ? to : from);
  return m;
}

SemRef SemRef::operator[](int i) const {
  const auto n = static_cast<int>(semaphores_.size());
  if (i < 0 || i >= n) fail_scalar_index(name_, i, n);
  SemRef part = *this;
  part.semaphores_ = {semaphores_[static_cast<std::size_t>(i)]};
  return part;
}

Semaphore& SemRef::one(Here at) const {
  if (semaphores_.size() != 1)
    fail_scalar_index(name_, 0, static_cast<long long>(semaphores_.size()));
  Semaphore& s = *semaphores_[0];
  if (s.generation != generation_) {
    throw KernelError(use_after_scope(s.name, site_of(*core_, at)));
  }
  return s;
}

AsyncCopy::AsyncCopy(Ref from, Ref to, const SemRef& sem, Here at)
    : core_(&sem.core()), from_(from), to_(to), landed_(&sem.one(at)) {
  check(at);
}

AsyncCopy::AsyncCopy(Ref from, Ref to, const SemRef& send, const SemRef& recv, int device, int core,
                     Here at)
    : core_(&send.core()),
      from_(from),
      to_(to),
      sent_(&send.one(at)),
      landed_(&recv.one(at)),
      device_(device),
      remote_core_(core) {
  check(at);
}

void AsyncCopy::check(Here at) const {
  const Site site = site_of(*core_, at);
  if (!on_byte(from_) || !on_byte(to_)) {
    const Ref& packed = on_byte(from_) ? to_ : from_;
    throw KernelError(
        {.slug = "unsupported",
         .kind = Diagnostic::Kind::unsupported,
         .headline = "a copy of packed elements that lie apart, of " + packed.buffer().name,
         .fields = {{"line", source_excerpt(at)}}});
  }
  try {
    check_copy(from_, to_);
  } catch (const RefError&) {
    throw KernelError(dma_size_mismatch(
        from_.buffer().name + ": " + describe(from_.dtype(), from_.extents()) + " is copied to " +
            to_.buffer().name + ": " + describe(to_.dtype(), to_.extents()),
        site));
  }
  for (const Semaphore* const s : {landed_, sent_}) {
    if (s != nullptr && s->kind == Semaphore::Kind::barrier)
      throw KernelError(shape_mismatch("copy", s->name + " is no DMA semaphore"));
  }
}

void AsyncCopy::start(int priority, Here at) const {
  Machine& m = *core_->machine;
  const Site site = site_of(*core_, at);
  auto t = std::make_shared<Transfer>(from_, to_);
  t->priority = priority;
  t->add = add_;
  t->site = site;
  t->landed = landed_;
  if (sent_ != nullptr) {
    const int target = detail::target_core(*core_, device_, remote_core_, site);
    t->sent = sent_;
    if (m.here(target)) {
      Buffer* const buffer = m.on_core(to_.buffer(), target);
      Semaphore* const recv = m.to_reach(*landed_, target);
      if (buffer == nullptr || recv == nullptr || !(buffer->shape == to_.buffer().shape)) {
        throw KernelError(use_after_scope(to_.buffer().name, site));
      }
      t->to = to_.in(*buffer);
      t->landed = recv;
    } else {
      t->elsewhere = target;
    }
  }
  if (!padding_) detail::record(*core_, *t, whole_);
  m.start(*core_, std::move(t));
}

void AsyncCopy::wait(Here at) const {
  if (sent_ != nullptr) wait_send(at);
  wait_recv(at);
}
namespace {
/// Waits for copies take bytes; a semaphore that counts signals counts a copy once.
void check_counts_bytes(const Semaphore& s) {
  if (s.kind != Semaphore::Kind::dma)
    throw KernelError(shape_mismatch(
        "wait", s.name + " is no DMA semaphore: semaphore_wait takes what a copy adds to it, 1"));
}
}  // namespace
void AsyncCopy::wait_send(Here at) const {
  Semaphore& s = sent_ != nullptr ? *sent_ : *landed_;
  check_counts_bytes(s);
  core_->machine->wait(*core_, s, from_.bytes(), site_of(*core_, at));
}
void AsyncCopy::wait_recv(Here at) const {
  check_counts_bytes(*landed_);
  core_->machine->wait(*core_, *landed_, to_.bytes(), site_of(*core_, at));
}

void semaphore_signal(const SemRef& sem, int n, int device, int core, Here at) {
  MachineCore& c = sem.core();
  const Site site = site_of(c, at);
  Semaphore& mine = sem.one(at);
  if (n < 0) throw KernelError(semaphore_underflow(c, mine, n, site));
  if (mine.kind == Semaphore::Kind::dma) {
    throw KernelError(shape_mismatch("semaphore_signal", mine.name + " counts bytes of transfers"));
  }
  if (n == 0) return;
  if (device == kThis && core == kThis) {
    c.machine->signal(c, mine, n, site);
    return;
  }
  const int id = detail::target_core(c, device, core, site);
  if (!c.machine->here(id))
    c.machine->signal_elsewhere(c, mine, id, n, site);
  else
    c.machine->signal_to(c, mine, id, n, site);
}

void semaphore_wait(const SemRef& sem, int n, Here at) {
  MachineCore& c = sem.core();
  const Site site = site_of(c, at);
  Semaphore& s = sem.one(at);
  if (n <= 0) throw KernelError(semaphore_underflow(c, s, -n, site));
  c.machine->wait(c, s, n, site);
}

int semaphore_read(const SemRef& sem, Here at) {
  MachineCore& c = sem.core();
  return static_cast<int>(c.machine->read(c, sem.one(at), site_of(c, at)));
}

}  // namespace tessera
