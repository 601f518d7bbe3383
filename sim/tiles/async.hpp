// What bodies say to the asynchronous machine: copies, semaphores, refs to HBM.
//
//   auto copy = make_async_copy(x.slice(ds(0, 8), ds(0, 128)), buf.slot(0), sems[0]);
//   copy.start();  ...  copy.wait();
//   make_async_remote_copy(from, to, send_sems[0], recv_sems[0], device).start();
//   semaphore_signal(s, 1, device);  semaphore_wait(s, 2);  semaphore_read(s);
//
// Names and meaning are those of jax.experimental.pallas.tpu (make_async_copy and its kin, JAX
// 0.10.2). A remote copy names the destination and the receiving semaphore as they are called here;
// they are the target's. wait() takes the destination's bytes off the semaphore; of a remote copy,
// wait_send() takes the source's off the first, wait_recv() what another device sends to
// this one off the second, and wait() does both. A copy may be made anew to be waited for.
//
// Errors: dma-size-mismatch, oob-index, misaligned-slice, bad-device-id, semaphore-underflow,
// use-after-scope, and what the machine finds (sim/machine/machine.hpp).
#pragma once

#include <optional>

#include "memory_model/moved_bytes.hpp"
#include "sim/machine/machine.hpp"
#include "sim/pipeline/body.hpp"
#include "sim/tiles/block_ref.hpp"

namespace tessera {

namespace detail {
void check_hbm_slice(const OperandPlan& op, const DeviceSpec& device, const Ref& ref, int dim,
                     std::int64_t start, std::int64_t size, std::int64_t step);
[[noreturn]] void fail_rank(const OperandPlan& op, int given, int rank);
}  // namespace detail

/// What a copy counts, but for who makes it and why.
Movement copy_movement(const Ref& from, const Ref& to, const DeviceSpec& device);

/// An array left in HBM, or part of it. Cannot be loaded: copy it to VMEM.
template <class T, Role kRole>
class HbmRef {
 public:
  using Element = T;
  static constexpr bool kWritable = kRole != Role::hbm_in;

  HbmRef(Buffer* buffer, const OperandPlan& plan, MachineCore& core) : plan_(&plan), core_(&core) {
    if (buffer != nullptr) {
      generation_ = buffer->generation;
      ref_.emplace(*buffer);
    }
  }

  /// Index i of the first dim, which is dropped.
  HbmRef at(std::int64_t i) const {
    HbmRef part = *this;
    detail::check_hbm_slice(*plan_, core_spec(), present(), 0, i, 1, 1);
    part.ref_ = ref_->squeeze(0, i);
    return part;
  }
  /// One ds() per dim.
  template <class... Start, class... Size>
  HbmRef slice(Ds<Start, Size>... runs) const {
    constexpr int kGiven = sizeof...(Start);
    if (present().extents().rank != kGiven) {
      detail::fail_rank(*plan_, kGiven, ref_->extents().rank);
    }
    HbmRef part = *this;
    int dim = 0;
    const auto apply = [&](std::int64_t start, std::int64_t size, std::int64_t step) {
      detail::check_hbm_slice(*plan_, core_spec(), *part.ref_, dim, start, size, step);
      part.ref_ = part.ref_->slice(dim, start, size, step);
      ++dim;
    };
    (apply(static_cast<int>(runs.start), static_cast<int>(runs.size), runs.step), ...);
    return part;
  }
  /// The same bytes as another type.
  template <class U>
  HbmRef<U, kRole> bitcast() const {
    HbmRef<U, kRole> cast(nullptr, *plan_, *core_);
    cast.ref_ = present().bitcast(kDTypeOf<U>);
    cast.generation_ = generation_;
    return cast;
  }
  Ref ref() const {
    if (present().buffer().generation != generation_) fail_scope(*core_, ref_->buffer());
    return *ref_;
  }

 private:
  template <class U, Role kOther>
  friend class HbmRef;
  const DeviceSpec& core_spec() const { return step_context->plan->device; }
  const Ref& present() const {
    if (!ref_) fail_absent(*plan_);
    return *ref_;
  }

  const OperandPlan* plan_;
  MachineCore* core_;
  std::uint32_t generation_ = 0;
  std::optional<Ref> ref_;
};

/// An array of semaphores, or one of them.
class SemRef {
 public:
  SemRef(const std::vector<Semaphore*>& semaphores, MachineCore& core, const char* name)
      : semaphores_(semaphores), core_(&core), name_(name) {
    if (!semaphores_.empty()) generation_ = semaphores_[0]->generation;
  }
  SemRef operator[](int i) const;

  MachineCore& core() const { return *core_; }
  /// The one that it names.
  Semaphore& one(Here at) const;

 private:
  std::vector<Semaphore*> semaphores_;
  MachineCore* core_;
  const char* name_;
  std::uint32_t generation_ = 0;
};

/// A copy that can be started and waited for.
class AsyncCopy {
 public:
  AsyncCopy(Ref from, Ref to, const SemRef& sem, Here at);
  AsyncCopy(Ref from, Ref to, const SemRef& send, const SemRef& recv, int device, int core,
            Here at);
  /// Adds to what is at the destination, instead of replacing it.
  AsyncCopy& adds(Adding sums) {
    add_ = sums;
    return *this;
  }
  /// Its bytes are no array's: they count on semaphores only.
  AsyncCopy& moves_padding() {
    padding_ = true;
    return *this;
  }
  /// With copies of padding it makes up a copy to or from `part`, of an array: that one's bytes
  /// move.
  AsyncCopy& makes_up(const Ref& part) {
    whole_ = part;
    return *this;
  }
  void start(int priority = 0, Here at = Here::now()) const;
  void wait(Here at = Here::now()) const;
  void wait_send(Here at = Here::now()) const;
  void wait_recv(Here at = Here::now()) const;

 private:
  void check(Here at) const;

  MachineCore* core_;
  Ref from_;
  Ref to_;
  Semaphore* sent_ = nullptr;
  Semaphore* landed_;
  int device_ = kThis;
  int remote_core_ = kThis;
  Adding add_ = nullptr;
  bool padding_ = false;
  std::optional<Ref> whole_;
};

template <class From, class To>
AsyncCopy make_async_copy(const From& from, const To& to, const SemRef& sem,
                          Here at = Here::now()) {
  static_assert(To::kWritable, "the destination of a copy is an input, which is read-only");
  return AsyncCopy(from.ref(), to.ref(), sem, at);
}
/// Started at once.
template <class From, class To>
AsyncCopy async_copy(const From& from, const To& to, const SemRef& sem, int priority = 0,
                     Here at = Here::now()) {
  const AsyncCopy copy = make_async_copy(from, to, sem, at);
  copy.start(priority, at);
  return copy;
}
/// `core`: of that device; the one with this core's number unless given.
template <class From, class To>
AsyncCopy make_async_remote_copy(const From& from, const To& to, const SemRef& send,
                                 const SemRef& recv, int device, int core = kThis,
                                 Here at = Here::now()) {
  static_assert(To::kWritable, "the destination of a copy is an input, which is read-only");
  return AsyncCopy(from.ref(), to.ref(), send, recv, device, core, at);
}

/// Adds n to a semaphore: this core's, or the same one of another device or core.
void semaphore_signal(const SemRef& sem, int n = 1, int device = kThis, int core = kThis,
                      Here at = Here::now());
/// Blocks until the count is at least n, and takes n off.
void semaphore_wait(const SemRef& sem, int n = 1, Here at = Here::now());
/// The count. Orders nothing.
int semaphore_read(const SemRef& sem, Here at = Here::now());

}  // namespace tessera
