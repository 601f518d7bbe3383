#include "sim/pipeline/plan.hpp"

#include <algorithm>

#include "sim/body/cta_fall.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "sim/pipeline/cta_operands.hpp"

namespace tessera {

Shape OperandPlan::in_bounds(const std::int64_t* index) const {
  Shape s = block;
  if (!by_element) {
    for (int d = 0; d < s.rank; ++d)
      s[d] = std::clamp<std::int64_t>(array[d] - index[d] * block[d], 0, block[d]);
    return s;
  }
  const Shape before = outside_before(index);
  for (int d = 0; d < s.rank; ++d)
    s[d] = std::clamp<std::int64_t>(array[d] - first(d, index), 0, block[d] - before[d]);
  return s;
}

Shape OperandPlan::outside_before(const std::int64_t* index) const {
  Shape s = block;
  for (int d = 0; d < s.rank; ++d)
    s[d] = by_element ? std::clamp<std::int64_t>(pad_low[d] - index[d], 0, block[d]) : 0;
  return s;
}

std::int64_t OperandPlan::first(int d, const std::int64_t* index) const {
  return by_element ? std::max<std::int64_t>(index[d] - pad_low[d], 0) : index[d] * block[d];
}

std::int64_t OperandPlan::offset(const std::int64_t* index) const {
  std::int64_t from = 0;
  for (int d = 0; d < block.rank; ++d) from += first(d, index) * strides[d];
  return from;
}

namespace {

/// What a block's rows are a multiple of. An array of bytes whose rows fill tiles of 32 has such
/// tiles, and others have rows of 8 (asked of libtpu 0.0.42, on five generations).
std::int64_t rows_unit(const OperandPlan& op, const DeviceSpec& device) {
  const int tile = device.tile(op.dtype).sublanes;
  const bool filled = op.array[op.array.rank - 2] % tile == 0;
  return bit_width(op.dtype) == 8 && filled ? tile : device.sublanes32;
}

/// The rules of Pallas's TPU lowering (jax 0.10.2, pallas/mosaic/lowering.py,
/// _check_block_mappings): the last two dims are multiples of 8 and 128, or the array's own; a 1-D
/// block is the whole array, a multiple of 1024, or a power of two of at least 128 x (32 / bit
/// width).
std::string block_shape_fault(const OperandPlan& op, const DeviceSpec& device) {
  if (device.kind != DeviceSpec::Kind::tpu) return "";
  const int last = op.block.rank - 1;
  const auto fits = [&](int dim, std::int64_t unit) {
    return op.block[dim] == op.array[dim] || op.block[dim] % unit == 0;
  };
  if (op.block.rank >= 2) {
    const std::int64_t rows = rows_unit(op, device);
    if (fits(last, device.lanes) && fits(last - 1, rows)) return "";
    const bool columns = !fits(last, device.lanes);
    const int dim = columns ? last : last - 1;
    const std::int64_t unit = columns ? device.lanes : rows;
    return "dim " + std::to_string(dim) + " of the block must be a multiple of " +
           std::to_string(unit) + " or the array's " + std::to_string(op.array[dim]);
  }
  const std::int64_t chunk = std::int64_t{device.sublanes32} * device.lanes;
  const std::int64_t line = line_elems(op.dtype, device.tile(op.dtype));
  const std::int64_t b = op.block[0];
  if (b == op.array[0] || b % chunk == 0 || (b >= line && (b & (b - 1)) == 0)) return "";
  return "a 1-D block must be the array's " + std::to_string(op.array[0]) + ", a multiple of " +
         std::to_string(chunk) + ", or a power of two of at least " + std::to_string(line);
}

cta::Operand cta_operand(const OperandPlan& op) {
  if (!op.built) return {};
  cta::Operand o{.role = op.role, .dtype = op.dtype, .of_cell = op.of_cell};
  if (is_block(op.role)) {
    o.rows = op.rows;
    o.cols = op.cols;
  }
  if (is_semaphore(op.role)) o.count = static_cast<int>(op.array[0]);
  if (op.role == Role::vmem && op.block.rank == 3)
    o.count = static_cast<int>(std::max<std::int64_t>(1, op.block[0]));
  return o;
}

void finish_operand(OperandPlan& op, Plan& plan) {
  op.strides = row_major_strides(op.array);
  op.blocks = op.array;
  for (int d = 0; d < op.block.rank; ++d) {
    op.blocks[d] = op.by_element ? std::max<std::int64_t>(0, op.array[d] + op.pad_low[d] +
                                                                 op.pad_high[d] - op.block[d] + 1)
                                 : (op.array[d] + op.block[d] - 1) / op.block[d];
    if (!op.squeezed[static_cast<std::size_t>(d)]) op.kept.push_back(op.block[d]);
  }
  op.full_bytes = packed_bytes(op.dtype, op.block.elems());
  op.full_padded_bytes = window_bytes(plan.device, op.dtype, op.array, op.block);
  if (!op.present) return;
  if (op.pipelined()) {
    const bool tiled = op.space != Space::smem && op.block.rank > 0;
    const std::string fault = tiled ? block_shape_fault(op, plan.device) : "";
    if (!fault.empty()) throw KernelError(illegal_block_shape(plan, op, fault));
    op.ledger_ref = plan.ledger.add_ref(op.name, op.role == Role::in ? "in" : "out");
  }
  if (in_hbm(op.role)) {
    op.ledger_ref = plan.ledger.add_ref(op.name, op.role == Role::hbm_in    ? "in"
                                                 : op.role == Role::hbm_out ? "out"
                                                                            : "scratch");
  }
  if (in_hbm(op.role) || is_semaphore(op.role) || op.space == Space::registers) return;
  Allocation a{op.name, op.space, op.dtype, op.kept, op.buffers, 0};
  if (plan.device.kind == DeviceSpec::Kind::gpu) {
    // Threads write outputs out of their registers.
    if (op.role == Role::out) return;
    if (op.role == Role::in) a.copies = cta_operand(op).slots(launch_of(plan).stages);
    if (op.role == Role::vmem && plan.peers) a.space = Space::hbm;
  }
  a.bytes = op.space == Space::smem ? packed_bytes(op.dtype, op.kept.elems()) : plan.vmem_bytes(op);
  plan.allocations.push_back(std::move(a));
}

}  // namespace

std::int64_t Plan::cells() const {
  std::int64_t cells = 1;
  for (int d = 0; d < parallel_rank; ++d) cells *= bounds[static_cast<std::size_t>(d)]->hi;
  return cells;
}

std::int64_t Plan::inner_cells() const {
  constexpr double kMost = 0x1p31;
  std::int64_t inner = 1;
  double all = static_cast<double>(cells());
  for (int d = parallel_rank; d < grid_rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (!inner_parallel[i] || !bounds[i]) continue;
    all *= std::max(1, bounds[i]->hi);
    if (all >= kMost) return 1;
    inner *= std::max(1, bounds[i]->hi);
  }
  return inner;
}

bool Plan::asynchronous() const {
  return std::any_of(operands.begin(), operands.end(), [](const OperandPlan& op) {
    // Arrays and semaphores are handed to the body by the machine, also those that are absent.
    return !is_block(op.role) || (op.present && op.aliased >= 0);
  });
}

std::vector<cta::Operand> cta_operands(const Plan& plan) {
  std::vector<cta::Operand> operands;
  for (const OperandPlan& op : plan.operands) operands.push_back(cta_operand(op));
  return operands;
}
cta::Operands cta_view(const Plan& plan, const std::vector<cta::Operand>& operands) {
  return {operands.data(),
          static_cast<int>(operands.size()),
          plan.grid_rank > plan.parallel_rank,
          plan.peers,
          plan.exchanges,
          plan.scope_bytes,
          plan.multiplies,
          plan.grid_rank == plan.parallel_rank + 2 ? plan.runs : 0};
}
std::string fall_from_tensor_cores(const Plan& plan) {
  const std::vector<cta::Operand> operands = cta_operands(plan);
  const cta::Fall fall = cta::fall_from_tensor_cores(cta_view(plan, operands));
  if (fall.why == nullptr) return "";
  std::string said = "16-bit products by FMA chains, not on tensor cores: ";
  if (fall.operand >= 0) said += plan.operands[static_cast<std::size_t>(fall.operand)].name + ": ";
  return said + fall.why;
}
cta::Launch launch_of(const Plan& plan) {
  const std::vector<cta::Operand> operands = cta_operands(plan);
  const cta::Sm* const known = cta::sm_of(plan.device.compute_capability);
  cta::Sm sm = known != nullptr ? *known : cta::kSm90;
  sm.shared_bytes = plan.device.vmem_bytes - sm.left_out_bytes();
  return cta::launch_of(cta_view(plan, operands), sm);
}

void check_grid(const Plan& plan, bool counted) {
  constexpr double kMost = 0x1p40;  // at 5 ns a step, an hour and a half
  double steps = 1;
  for (int d = 0; d < plan.grid_rank - (counted ? 1 : 0); ++d) {
    const auto& bound = plan.bounds[static_cast<std::size_t>(d)];
    if (bound) steps *= std::max(0, bound->hi - bound->lo);
  }
  if (steps <= kMost) return;
  Diagnostic d{.slug = "unsupported",
               .kind = Diagnostic::Kind::unsupported,
               .headline = "a grid of more than 2^40 steps" +
                           std::string(counted ? " before those of its last dim" : "")};
  add_kernel_field(d);
  throw KernelError(std::move(d));
}

void count_scratch(Plan& plan) {
  if (plan.scoped_ref >= 0) return;
  for (auto& op : plan.operands) {
    if (op.role == Role::vmem) op.ledger_ref = plan.ledger.add_ref(op.name, "scratch");
  }
  plan.scoped_ref = plan.ledger.add_ref("run_scoped", "scratch");
}

void finish_plan(Plan& plan) {
  for (auto& op : plan.operands) finish_operand(op, plan);
  for (std::size_t i = 0; i < plan.operands.size(); ++i) {
    OperandPlan& op = plan.operands[i];
    if (op.alias == nullptr || !op.present) continue;
    for (std::size_t j = 0; j < plan.operands.size(); ++j) {
      OperandPlan& in = plan.operands[j];
      if (!in.is_input() || in.name != op.alias) continue;
      op.aliased = static_cast<int>(j);
      in.aliased = static_cast<int>(i);
    }
    if (op.aliased < 0) {
      throw InputError("bad-input", op.name + " aliases '" + op.alias + "', which is no input");
    }
    // One array, which copies count as the first of both.
    if (in_hbm(op.role)) {
      const auto [first, second] = std::minmax({i, static_cast<std::size_t>(op.aliased)});
      plan.operands[second].ledger_ref = plan.operands[first].ledger_ref;
    }
    const OperandPlan& in = plan.operands[static_cast<std::size_t>(op.aliased)];
    if (in.dtype != op.dtype || !(in.array == op.array)) {
      throw InputError("bad-input", op.name + " is " + describe(op.dtype, op.array) +
                                        " and aliases " + in.name + ", which is " +
                                        describe(in.dtype, in.array));
    }
  }
  for (auto& s : plan.scalars) {
    s.ledger_ref = plan.ledger.add_ref(s.name, "scalar");
    plan.allocations.push_back(
        {s.name, Space::smem, s.dtype, Shape{s.elems}, 1, packed_bytes(s.dtype, s.elems)});
  }
  if (plan.vmem_bytes() - plan.vmem_bytes_in_doubt() > plan.vmem_capacity())
    throw KernelError(vmem_capacity(plan));
  if (plan.smem_bytes() > plan.device.smem_bytes) throw KernelError(smem_capacity(plan));
}

}  // namespace tessera
