// Scratch that lives for the time of one call: what env.run_scoped() makes.
//
// A scope's buffers are places of their core like any other, so another device inside the same
// scope can copy to them. At the end nothing may be under way to them and semaphores must count
// zero. What a scope gives back is used again; a ref that outlived its scope is told by the
// generation of what it names.
#pragma once

#include "sim/tiles/env.hpp"

namespace tessera {

/// The plan of scratch from its declaration; `spec` says where accumulators live.
template <class Op>
OperandPlan scratch_plan(const Op& op, const DeviceSpec& spec);

namespace detail {

/// Checks that the scope's scratch fits (vmem-capacity, smem-capacity), and counts it.
void enter_scope(MachineCore& c, const OperandPlan& op);
void leave_scope(MachineCore& c, const OperandPlan& op);

struct ScopedBlock final : ScopedObject {
  OperandPlan plan;
  Block block;
};
struct ScopedHbm final : ScopedObject {
  /// An array of changing size.
  struct Owned final : Buffer {
    Owned() : Buffer("", Space::hbm, DType::f32, {}) {}
    const std::byte* bytes() override { return memory.data(); }
    std::byte* writable() override { return memory.data(); }
    std::vector<std::byte> memory;
  };
  OperandPlan plan;
  Owned buffer;
};
struct ScopedSemaphores final : ScopedObject {
  OperandPlan plan;
  std::vector<std::unique_ptr<Semaphore>> semaphores;
};

template <class Object>
std::unique_ptr<Object> take_scoped(MachineCore& c) {
  for (auto& kept : c.scoped) {
    if (auto* object = dynamic_cast<Object*>(kept.get())) {
      static_cast<void>(kept.release());
      std::swap(kept, c.scoped.back());
      c.scoped.pop_back();
      return std::unique_ptr<Object>(object);
    }
  }
  return std::make_unique<Object>();
}

/// One operand of a scope, from its allocation to the end of the scope.
template <class Op>
class Scoped {
  static constexpr Role kRole = Op::kRole;
  using T = typename Op::Element;
  using Object = std::conditional_t<is_semaphore(kRole), ScopedSemaphores,
                                    std::conditional_t<in_hbm(kRole), ScopedHbm, ScopedBlock>>;
  static_assert(kRole != Role::in && kRole != Role::out && kRole != Role::hbm_in &&
                    kRole != Role::hbm_out,
                "run_scoped makes scratch; inputs and outputs are operands of the kernel");

 public:
  Scoped(MachineCore& c, const Op& op) : core_(c), object_(take_scoped<Object>(c)) {
    object_->plan = scratch_plan(op, step_context->plan->device);
    object_->plan.ledger_ref = step_context->plan->scoped_ref;
    enter_scope(c, object_->plan);
    const OperandPlan& plan = object_->plan;
    if constexpr (is_semaphore(kRole)) {
      const auto n = static_cast<std::size_t>(plan.array[0]);
      for (std::size_t i = 0; i < n; ++i) {
        const auto kind = kRole == Role::dma_sem ? Semaphore::Kind::dma : Semaphore::Kind::regular;
        const std::uint32_t generation =
            i < object_->semaphores.size() ? object_->semaphores[i]->generation : 0;
        auto fresh = std::make_unique<Semaphore>(
            n == 1 ? plan.name : plan.name + "[" + std::to_string(i) + "]", kind, c.id);
        fresh->generation = generation;
        if (i < object_->semaphores.size())
          *object_->semaphores[i] = std::move(*fresh);
        else
          object_->semaphores.push_back(std::move(fresh));
        c.machine->place(*object_->semaphores[i]);
      }
    } else {
      Buffer& b = buffer();
      if constexpr (in_hbm(kRole)) {
        b.name = plan.name;
        b.space = plan.space;
        b.dtype = plan.dtype;
        b.shape = plan.array;
        b.shadow = Shadow(b.shape.elems(), Shadow::uninit);
        b.bounds.clear();
        object_->buffer.memory.resize(
            static_cast<std::size_t>(packed_bytes(plan.dtype, plan.array.elems())));
      } else {
        object_->block.take(plan, step_context->plan->device);
        object_->block.on = &c;
        object_->block.allocate_undefined();
      }
      b.device = c.device;
      b.core = c.id;
      b.ledger_ref = plan.ledger_ref;
      c.machine->place(b);
    }
  }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;
  ~Scoped() {
    if constexpr (is_semaphore(kRole)) {
      for (std::size_t i = used(); i-- > 0;) {
        core_.machine->unplace(*object_->semaphores[i]);
        ++object_->semaphores[i]->generation;
      }
    } else {
      core_.machine->unplace(buffer());
      ++buffer().generation;
    }
    leave_scope(core_, object_->plan);
    core_.scoped.push_back(std::move(object_));
  }

  auto ref() {
    if constexpr (is_semaphore(kRole)) {
      std::vector<Semaphore*> semaphores;
      for (std::size_t i = 0; i < used(); ++i) semaphores.push_back(object_->semaphores[i].get());
      return SemRef(semaphores, core_, object_->plan.name.c_str());
    } else if constexpr (in_hbm(kRole)) {
      return HbmRef<T, kRole>(&object_->buffer, object_->plan, core_);
    } else {
      return BlockRef<T, kRole>(object_->block);
    }
  }

  /// The checks at the end of a scope that ran to its end.
  void check() {
    if constexpr (is_semaphore(kRole)) {
      for (std::size_t i = 0; i < used(); ++i) {
        core_.machine->end_of_scope(core_, *object_->semaphores[i]);
      }
    } else {
      core_.machine->end_of_scope(core_, buffer());
    }
  }

 private:
  std::size_t used() const { return static_cast<std::size_t>(object_->plan.array[0]); }
  Buffer& buffer() {
    if constexpr (in_hbm(kRole))
      return object_->buffer;
    else
      return object_->block;
  }

  MachineCore& core_;
  std::unique_ptr<Object> object_;
};

}  // namespace detail

namespace detail {
template <class Body>
void in_scope(MachineCore&, Body&& body) {
  body();
}
template <class Body, class Op, class... Rest>
void in_scope(MachineCore& c, Body&& body, const Op& op, const Rest&... rest) {
  Scoped<Op> scoped(c, op);
  in_scope(
      c, [&](auto... refs) { body(scoped.ref(), refs...); }, rest...);
  scoped.check();
}
}  // namespace detail

template <class Body, class... Op>
void Env::run_scoped(Body&& body, const Op&... scratch) const {
  detail::in_scope(machine_core(), body, scratch...);
}

}  // namespace tessera
