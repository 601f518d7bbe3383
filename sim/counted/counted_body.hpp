// What a body on counted tiles (sim/counted/counted_tile.hpp) is given: refs, semaphores, copies
// and an env that count bytes and note which program ids the body looks at.
//
// Copies move nothing and waits return at once; what a copy counts is what the asynchronous machine
// would (sim/tiles/async.hpp). Scratch of run_scoped is seen at its peak.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "sim/counted/counted_tile.hpp"
#include "sim/tiles/env.hpp"
#include "sim/tiles/scoped.hpp"

namespace tessera {

/// The memory of an operand that has none.
struct CountedBuffer final : Buffer {
  CountedBuffer(const OperandPlan& op, const Plan& plan, const MachineCore& c)
      : Buffer(op.name, op.space, op.dtype, in_hbm(op.role) ? op.array : Shape{op.rows, op.cols}) {
    device = c.device;
    core = in_hbm(op.role) ? -1 : c.id;
    // Blocks of the pipeline have rows for what it moves; copies of theirs count as scratch's.
    ledger_ref = in_hbm(op.role) || op.role == Role::vmem ? op.ledger_ref : plan.scoped_ref;
  }
  const std::byte* bytes() override { throw ValueNeeded{}; }
  std::byte* writable() override { throw ValueNeeded{}; }
};

/// What `*ref` of a block that can be written gives.
template <class T>
struct CountedBlock {
  using Backend = Counter;
  using Element = T;
  int rows;
  int cols;

  T operator()(int, int) const { throw ValueNeeded{}; }
  CountedBlock(int r, int c) : rows(r), cols(c) {}
  CountedBlock(const CountedBlock&) = default;
  CountedBlock& operator=(const CountedBlock& x) && { return assign(x); }
  template <class X>
  CountedBlock& operator=(X&& x) && {
    if constexpr (!ScalarLike<X> && !ScalarPlace<X>) assign(x);
    return *this;
  }
  template <class X>
  CountedBlock& operator=(X&&) & = delete;
  template <class X>
  CountedBlock& operator+=(X&& x) && {
    if constexpr (kIsCountedDot<std::remove_cvref_t<X>>)
      return assign(x);
    else
      return assign(Counter::map<Add>(*this, x));
  }
  template <class X>
  CountedBlock& operator-=(const X& x) && {
    return assign(Counter::map<Sub>(*this, x));
  }
  template <class X>
  CountedBlock& operator*=(const X& x) && {
    return assign(Counter::map<Mul>(*this, x));
  }

 private:
  template <class X>
  CountedBlock& assign(const X& x) {
    if (x.rows != rows || x.cols != cols)
      fail_shapes("assignment", {{rows, cols}, {x.rows, x.cols}});
    if constexpr (kIsCountedDot<X>) x.count();
    return *this;
  }
};

/// A block as a body sees it (BlockRef in sim/tiles/block_ref.hpp).
template <class T, Role kRole>
class CountedRef {
 public:
  using Element = T;
  static constexpr bool kWritable = kRole != Role::in;
  int rows;
  int cols;

  CountedRef(Buffer& buffer, const OperandPlan& plan)
      : rows(plan.rows), cols(plan.cols), buffer_(&buffer), plan_(&plan) {}

  bool there() const { return plan_->present; }
  auto operator*() const {
    if (!plan_->present) fail_absent(*plan_);
    if constexpr (kRole == Role::in)
      return CountedTile<T>{rows, cols};
    else
      return CountedBlock<T>(rows, cols);
  }
  template <class R0, class RN, class C0, class CN>
  CountedRef slice(Ds<R0, RN> r, Ds<C0, CN> c) const {
    if (r.step != 1 || c.step != 1) fail_step(*plan_);
    CountedRef part = *this;
    part.row_ += static_cast<int>(r.start);
    part.col_ += static_cast<int>(c.start);
    part.rows = static_cast<int>(r.size);
    part.cols = static_cast<int>(c.size);
    check_slice(*plan_, step_context->plan->device, static_cast<int>(r.start),
                static_cast<int>(c.start), part.rows, part.cols, rows, cols, row_ - lead_row_,
                col_);
    return part;
  }
  CountedRef at(int i) const {
    if constexpr (kRole == Role::vmem) return slot(i);
    CountedRef part = *this;
    part.rows = rows_at(*plan_, taken_, i, rows);
    part.row_ += i * part.rows;
    part.lead_row_ = part.row_;
    ++part.taken_;
    return part;
  }
  CountedRef row(int t) const { return slice(ds(t, 1), ds(0, cols)); }
  template <class Size>
  CountedRef row_range(int start, Size size) const {
    return slice(ds(start, size), ds(0, cols));
  }
  template <class Size>
  CountedRef col_range(int start, Size size) const {
    return slice(ds(0, rows), ds(start, size));
  }
  int slots() const { return static_cast<int>(plan_->block[0]); }
  CountedRef slot(int i) const {
    if (plan_->block.rank != 3) fail_no_slots(*plan_);
    if (i < 0 || i >= slots()) fail_slot(*plan_, i, slots());
    CountedRef part = *this;
    part.rows = rows / slots();
    part.row_ += i * part.rows;
    return part;
  }
  Ref ref() const { return Ref(*buffer_).slice(0, row_, rows).slice(1, col_, cols); }

  template <class X, class M>
  void store(const X& x, const M&) const {
    if (x.rows != rows || x.cols != cols) fail_shapes("store", {{rows, cols}, {x.rows, x.cols}});
  }
  template <class X, class Keep>
  void store_at(const X& x, Keep) const {
    if (x.rows != rows || x.cols != cols) fail_shapes("store", {{rows, cols}, {x.rows, x.cols}});
  }

  struct Scalar {
    using ScalarType = T;
    operator T() const { throw ValueNeeded{}; }  // NOLINT(google-explicit-constructor)
    Scalar& operator=(T) { return *this; }
    Scalar& operator=(const Scalar& x) { return *this = static_cast<T>(x); }
  };
  Scalar operator[](int index) const {
    if (index < 0 || index >= cols) fail_scalar(*plan_, index);
    return {};
  }

 private:
  Buffer* buffer_;
  const OperandPlan* plan_;
  int row_ = 0;
  int col_ = 0;
  int lead_row_ = 0;
  int taken_ = 0;
};

/// Semaphores that nobody waits for, by their number.
struct CountedSem {
  CountedCore* counted;
  int number;
  CountedSem operator[](int i) const { return {counted, number + i}; }
};

/// A copy that counts when it starts.
class CountedCopy {
 public:
  CountedCopy(const Ref& from, const Ref& to, CountedSem landed)
      : from_(from), to_(to), counted_(landed.counted), landed_(landed.number) {}
  CountedCopy(const Ref& from, const Ref& to, CountedSem sent, CountedSem landed, int device,
              int core)
      : from_(from),
        to_(to),
        counted_(landed.counted),
        landed_(landed.number),
        sent_(sent.number),
        remote_(true),
        device_(device),
        core_(core) {}
  void start(int = 0, Here at = Here::now()) const {
    Movement m = copy_movement(from_, to_, counted_->plan->device);
    m.why = remote_ ? Why::remote_dma : Why::dma;
    m.device = counted_->core->device;
    const int target = device_ == kThis ? m.device : device_;
    if (remote_ && target != m.device) m.to_device = target;
    m.core = counted_->core->core;
    counted_->copies.push_back(m);
    if (from_.bytes() == 0) return;
    Act act;
    act.kind = Act::Kind::copy;
    act.from = m.from;
    act.to = m.to;
    act.core = counted_->id(device_, core_);
    act.semaphore = landed_;
    act.remote = remote_;
    act.sent = sent_;
    act.amount = from_.bytes();
    act.padded_bytes = m.padded_bytes;
    act.ref = m.ref;
    act.to_ref = m.to_ref;
    act.at = at;
    counted_->write_down(act);
  }
  void wait(Here at = Here::now()) const {
    if (remote_) wait_send(at);
    wait_recv(at);
  }
  void wait_send(Here at = Here::now()) const {
    wait_for(remote_ ? sent_ : landed_, from_.bytes(), at);
  }
  void wait_recv(Here at = Here::now()) const { wait_for(landed_, to_.bytes(), at); }

 private:
  void wait_for(int semaphore, std::int64_t amount, Here at) const {
    counted_->write_down(wait_act(counted_->core->id, semaphore, amount, at));
  }

  Ref from_;
  Ref to_;
  CountedCore* counted_;
  int landed_;
  int sent_ = 0;
  bool remote_ = false;
  int device_ = kThis;
  int core_ = kThis;
};

template <class From, class To>
CountedCopy make_async_copy(const From& from, const To& to, const CountedSem& sem,
                            Here = Here::now()) {
  return CountedCopy(from.ref(), to.ref(), sem);
}
template <class From, class To>
CountedCopy async_copy(const From& from, const To& to, const CountedSem& sem, int = 0,
                       Here at = Here::now()) {
  const CountedCopy copy = make_async_copy(from, to, sem);
  copy.start(0, at);
  return copy;
}
template <class From, class To>
CountedCopy make_async_remote_copy(const From& from, const To& to, const CountedSem& send,
                                   const CountedSem& recv, int device, int core = kThis,
                                   Here = Here::now()) {
  return CountedCopy(from.ref(), to.ref(), send, recv, device, core);
}
inline void semaphore_signal(const CountedSem& sem, int n = 1, int device = kThis, int core = kThis,
                             Here = Here::now()) {
  sem.counted->write_down(signal_act(sem.counted->id(device, core), sem.number, n));
}
inline void semaphore_wait(const CountedSem& sem, int n = 1, Here at = Here::now()) {
  sem.counted->write_down(wait_act(sem.counted->core->id, sem.number, n, at));
}
inline int semaphore_read(const CountedSem&, Here = Here::now()) { throw ValueNeeded{}; }

/// The memory and the ref of an operand, or of scratch that run_scoped makes.
template <class Op>
struct CountedOperand {
  static constexpr Role kRole = Op::kRole;
  using T = typename Op::Element;
  CountedCore* counted;
  const OperandPlan* plan;
  std::unique_ptr<CountedBuffer> buffer;
  int semaphore = 0;  ///< the number of the first

  CountedOperand(CountedCore& c, const OperandPlan& p) : counted(&c), plan(&p) {
    if constexpr (is_semaphore(kRole)) {
      semaphore = c.semaphores;
      c.semaphores += static_cast<int>(p.array[0]);
    } else {
      buffer = std::make_unique<CountedBuffer>(p, *c.plan, *c.core);
    }
  }
  auto ref() const {
    if constexpr (is_semaphore(kRole))
      return CountedSem{counted, semaphore};
    else if constexpr (in_hbm(kRole))
      return HbmRef<T, kRole>(plan->present ? buffer.get() : nullptr, *plan, *counted->core);
    else
      return CountedRef<T, kRole>(*buffer, *plan);
  }
};

/// The env of a counted body (Env in sim/tiles/env.hpp).
class CountedEnv {
 public:
  using Backend = Counter;
  explicit CountedEnv(CountedCore& c) : c_(&c) {}

  int program_id(int d) const {
    c_->use.exact |= 1u << d;
    return c_->ids[static_cast<std::size_t>(d)];
  }
  int num_programs(int d) const {
    c_->use.extents |= 1u << d;
    return c_->hi[static_cast<std::size_t>(d)] - c_->lo[static_cast<std::size_t>(d)];
  }
  bool first(int d) const {
    c_->use.ends |= 1u << d;
    return c_->ids[static_cast<std::size_t>(d)] == c_->lo[static_cast<std::size_t>(d)];
  }
  bool last(int d) const {
    c_->use.ends |= 1u << d;
    return c_->ids[static_cast<std::size_t>(d)] == c_->hi[static_cast<std::size_t>(d)] - 1;
  }
  template <class F>
  void loop(int lo, int hi, F f) const {
    for (int i = lo; i < hi; ++i) f(i);
  }
  void check(bool condition, const char* message, Here at = Here::now()) const {
    if (!condition) throw KernelError(check_failed(message, at));
  }
  template <class... X>
  void print(const X&...) const {}
  struct Scope {
    ~Scope() {}  // NOLINT(modernize-use-equals-default): a name for a region is used
  };
  [[nodiscard]] Scope scope(const char*) const { return {}; }

  int device_id() const { return c_->core->device; }
  int num_devices() const { return c_->core->machine->devices(); }
  int core_id() const { return c_->core->core; }
  int num_cores() const { return c_->core->machine->cores_per_device(); }
  int mesh_extent(int axis) const { return env().mesh_extent(axis); }
  int mesh_coordinate(int axis) const { return env().mesh_coordinate(axis); }
  template <class... I>
  int device_at(I... coordinates) const {
    return env().device_at(coordinates...);
  }
  template <class Body, class... Op>
  void run_scoped(Body&& body, const Op&... scratch) const {
    if (c_->plan->scoped_ref < 0) throw NeedsMachine{};
    const auto scope = [&](const auto& op) {
      OperandPlan plan = scratch_plan(op, c_->plan->device);
      plan.ledger_ref = c_->plan->scoped_ref;
      return plan;
    };
    const std::array<OperandPlan, sizeof...(Op)> plans{scope(scratch)...};
    for (const OperandPlan& p : plans) detail::enter_scope(*c_->core, p);
    const int semaphores = c_->semaphores;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const std::tuple<CountedOperand<Op>...> operands{CountedOperand<Op>(*c_, plans[I])...};
      body(std::get<I>(operands).ref()...);
    }
    (std::index_sequence_for<Op...>{});
    c_->semaphores = semaphores;
    for (const OperandPlan& p : plans) detail::leave_scope(*c_->core, p);
  }
  CountedSem barrier_semaphore(int collective_id = 0) const { return {c_, -1 - collective_id}; }

 private:
  /// The interpreter's, for what the mesh says.
  Env env() const {
    return Env(c_->ids.data(), c_->lo.data(), c_->hi.data(), nullptr, nullptr, c_->core);
  }
  CountedCore* c_;
};

}  // namespace tessera
