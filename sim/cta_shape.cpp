#include "sim/cta_shape.hpp"

#include <algorithm>

#include "sim/plan.hpp"

namespace tessera {

namespace {

constexpr int kMostStages = 8;
constexpr int kPanelBytes = 128;
constexpr int kBarrierBytes = 8;
constexpr int kCellRing = 64;

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

struct Placed {
  bool panelled = false;
  std::int64_t align = 128;
  std::int64_t bytes = 0;
};
/// cuda/packing.hpp.
Placed placed(const OperandPlan& op, int rows) {
  Placed p;
  const std::int64_t row = packed_bytes(op.dtype, op.cols);
  p.panelled = rows > 1 && row % kPanelBytes == 0;
  p.align = p.panelled ? 1024 : 128;
  p.bytes = round_up((p.panelled ? round_up(rows, 8) : rows) * row, p.align);
  return p;
}

int slots_of(const OperandPlan& op) {
  return op.role == Role::vmem && op.block.rank == 3 ? static_cast<int>(op.block[0]) : 1;
}

bool is_half(DType d) { return d == DType::bf16 || d == DType::f16; }

/// A tensor core can read it, or it is no operand of a product.
bool for_tensor_cores(const OperandPlan& op) {
  if (op.role != Role::in && op.role != Role::vmem) return true;
  if (op.rows == 1 || op.cols == 1 || !is_float(op.dtype) || op.dtype == DType::f32) return true;
  const int rows = op.rows / slots_of(op);
  return is_half(op.dtype) && placed(op, rows).panelled && rows % 16 == 0;
}

std::int64_t shared_with(const Plan& plan, int of_step, int of_cell) {
  std::int64_t at = 0;
  std::int64_t barriers = 0;
  for (const OperandPlan& op : plan.operands) {
    // What lies in registers takes no room, but its tile is aligned all the same.
    const Placed p = placed(op, op.rows / slots_of(op));
    if (is_block(op.role)) at = round_up(at, p.align);
    if (op.role == Role::in) {
      const int slots = op.of_cell ? of_cell : of_step;
      at += slots * p.bytes;
      barriers += 2 * slots;
    } else if (op.role == Role::vmem) {
      at += slots_of(op) * p.bytes;
    } else if (op.role == Role::dma_sem) {
      barriers += op.array[0];
    }
  }
  return round_up(at, 128) + kBarrierBytes * barriers + kCellRing;
}

/// As many slots as fit.
void set_stages(CtaShape& shape, const Plan& plan) {
  const bool has_steps = plan.grid_rank > plan.parallel_rank;
  shape.shared_bytes = shared_with(plan, 1, 1);
  for (int c = 2; c > 0; --c) {
    for (int s = kMostStages; s > 1; --s) {
      const int cell = has_steps ? c : s;
      if (shared_with(plan, s, cell) > plan.device.vmem_bytes) continue;
      shape.step_stages = s;
      shape.cell_stages = cell;
      shape.shared_bytes = shared_with(plan, s, cell);
      return;
    }
  }
}

}  // namespace

CtaShape cta_shape(const Plan& plan) {
  CtaShape shape;
  std::int64_t sum_rows = 0;
  std::int64_t sum_elems = 0;
  std::int64_t elems = 0;
  bool tensor = true;
  bool halves = false;
  std::int64_t statistic_rows = 1;
  std::int64_t in_rows = 1;
  for (const OperandPlan& op : plan.operands) {
    const std::int64_t here = std::int64_t{op.rows} * op.cols;
    if (op.role == Role::accum && op.cols > 1) {
      sum_rows = std::max<std::int64_t>(sum_rows, op.rows);
      sum_elems = std::max(sum_elems, here);
    }
    if (op.role == Role::accum || op.role == Role::out) elems = std::max(elems, here);
    if (op.role == Role::accum && op.cols == 1)
      statistic_rows = std::max<std::int64_t>(statistic_rows, op.rows);
    if (op.role == Role::in) in_rows = std::max<std::int64_t>(in_rows, op.rows);
    tensor = tensor && for_tensor_cores(op) &&
             (op.role != Role::accum || op.cols == 1 || op.cols % 64 == 0);
    halves = halves || ((op.role == Role::in || op.role == Role::vmem) &&
                        bit_width(op.dtype) < 32 && is_float(op.dtype));
  }
  shape.tensor_cores = sum_elems > 1 && sum_rows % 64 == 0 && tensor && halves;
  int computing = 128;
  if (shape.tensor_cores) {
    shape.warpgroups = 1;
    for (int n = 2; n <= 4; ++n) {
      if (sum_rows % (64 * n) == 0 && sum_elems <= std::int64_t{128} * 128 * n) {
        shape.warpgroups = n;
        break;
      }
    }
    computing = 128 * shape.warpgroups;
  } else {
    if (statistic_rows > 1) elems = std::max(elems, statistic_rows * in_rows);
    while (computing < 512 && elems > std::int64_t{64} * computing) computing *= 2;
    shape.warpgroups = computing / 128;
  }
  shape.threads = computing + 128;
  const int fair = 65536 / 128 / (shape.warpgroups + 1) / 8 * 8;
  const int left = (fair * (shape.warpgroups + 1) - 64) / shape.warpgroups / 8 * 8;
  shape.registers = fair < 240 ? std::min(left, 240) : 255;
  set_stages(shape, plan);
  // Products of tensor cores take all registers. nvcc gives elementwise kernels 80.
  constexpr int kUsualRegisters = 80;
  constexpr std::int64_t kOfSystem = 1024;  // bytes of shared memory that every CTA takes besides
  if (!shape.tensor_cores) {
    const std::int64_t by_memory =
        1 + (plan.device.vmem_bytes - shape.shared_bytes) / (shape.shared_bytes + kOfSystem);
    const std::int64_t by_threads =
        std::min(2048 / shape.threads, 65536 / (kUsualRegisters * shape.threads));
    shape.resident = static_cast<int>(
        std::clamp<std::int64_t>(by_memory, 1, std::max<std::int64_t>(1, by_threads)));
  }
  return shape;
}

}  // namespace tessera
