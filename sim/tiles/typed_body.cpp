#include "sim/tiles/typed_body.hpp"

namespace tessera::detail {

namespace {

Space space_of(Role role, const DeviceSpec& device) {
  if (in_hbm(role)) return Space::hbm;
  if (is_semaphore(role)) return Space::semaphore;
  if (role == Role::smem) return Space::smem;
  return role == Role::accum && !device.accumulators_in_vmem() ? Space::registers : Space::vmem;
}

}  // namespace

OperandPlan operand_plan(const Declared& op, const DeviceSpec& device) {
  OperandPlan p;
  p.name = op.name.text;
  p.role = op.role;
  p.dtype = op.dtype;
  p.at = op.name.at;
  p.space = space_of(op.role, device);
  p.array = op.array;
  p.buffers = op.buffers;
  p.present = op.present;
  p.built = op.built;
  p.padded = op.padded;
  p.pad_value = op.pad_value;
  p.alias = op.alias;
  p.same = op.same;
  p.spread = op.spread;
  p.reached = op.role == Role::vmem || op.role == Role::out;
  return p;
}

}  // namespace tessera::detail
