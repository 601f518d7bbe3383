#include "sim/tiles/env.hpp"

#include <fmt/format.h>

#include "sim/tiles/scoped.hpp"

namespace tessera {

int Env::mesh_extent(int axis) const {
  const std::vector<int> mesh = core_ == nullptr ? std::vector<int>{1} : core_->machine->mesh();
  if (axis < 0 || axis >= static_cast<int>(mesh.size())) {
    throw KernelError(oob_mesh_axis(axis, static_cast<int>(mesh.size())));
  }
  return mesh[static_cast<std::size_t>(axis)];
}

int Env::mesh_coordinate(int axis) const {
  const int extent = mesh_extent(axis);
  int id = device_id();
  if (core_ != nullptr) {
    const auto& mesh = core_->machine->mesh();
    for (std::size_t a = mesh.size() - 1; a > static_cast<std::size_t>(axis); --a) id /= mesh[a];
  }
  return id % extent;
}

int Env::device_of(std::span<const int> coordinates) const {
  int id = 0;
  for (std::size_t a = 0; a < coordinates.size(); ++a) {
    const int extent = mesh_extent(static_cast<int>(a));
    const int at = coordinates[a];
    if (at < 0 || at >= extent) {
      throw KernelError(oob_mesh_coordinate(static_cast<int>(a), at, extent));
    }
    id = id * extent + at;
  }
  return id;
}

SemRef Env::barrier_semaphore(int collective_id) const {
  MachineCore& c = machine_core();
  return SemRef({&c.machine->barrier(c, collective_id)}, c, "barrier");
}

namespace detail {

std::string print_value(double v) { return fmt::format("{:g}", v); }

namespace {
std::int64_t counted_bytes(const OperandPlan& op) {
  if (op.space == Space::registers || op.space == Space::semaphore) return 0;
  return op.space == Space::vmem ? step_context->plan->vmem_bytes(op)
                                 : packed_bytes(op.dtype, op.array.elems());
}
}  // namespace

void enter_scope(MachineCore& c, const OperandPlan& op) {
  const auto space = static_cast<std::size_t>(op.space);
  const Plan& plan = *step_context->plan;
  const std::int64_t bytes = counted_bytes(op);
  c.scoped_bytes[space] += bytes;
  c.scoped_peak[space] = std::max(c.scoped_peak[space], c.scoped_bytes[space]);
  const bool vmem = op.space == Space::vmem;
  const std::int64_t capacity = vmem ? plan.vmem_capacity() : plan.device.smem_bytes;
  const std::int64_t used = bytes_in(plan.allocations, op.space) + c.scoped_bytes[space] -
                            (vmem ? plan.vmem_bytes_in_doubt() : 0);
  if ((!vmem && op.space != Space::smem) || used <= capacity) return;
  Plan with = plan;
  const std::int64_t before = c.scoped_bytes[space] - bytes;
  if (before > 0)
    with.allocations.push_back({"run_scoped", op.space, DType::u8, {before}, 1, before});
  with.allocations.push_back({op.name, op.space, op.dtype, op.kept, 1, bytes});
  throw KernelError(vmem ? vmem_capacity(with) : smem_capacity(with));
}

void leave_scope(MachineCore& c, const OperandPlan& op) {
  c.scoped_bytes[static_cast<std::size_t>(op.space)] -= counted_bytes(op);
}

}  // namespace detail

}  // namespace tessera
