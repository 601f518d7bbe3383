#include "sim/dry.hpp"

#include <algorithm>

#include "sim/run.hpp"

namespace tessera::detail {

namespace {

struct Moved {
  std::int64_t bytes = 0;
  std::int64_t padded = 0;
};

Moved bytes_of(const OperandPlan& plan, const DeviceSpec& device, const Shape& inside) {
  if (inside == plan.block) return {plan.full_bytes, plan.full_padded_bytes};
  return {packed_bytes(plan.dtype, inside.elems()), device.padded_bytes(plan.dtype, inside)};
}

}  // namespace

std::int64_t count_run(DryOperand& o, const OperandPlan& plan, const DeviceSpec& device,
                       const std::int64_t* index, const std::int64_t* slope, std::int64_t steps,
                       bool renew) {
  const int rank = plan.block.rank;
  bool moves = false;
  bool inside = true;
  for (int d = 0; d < rank; ++d) {
    moves = moves || slope[d] != 0;
    const std::int64_t end = index[d] + slope[d] * (steps - 1);
    inside = inside && std::min(index[d], end) >= 0 && std::max(index[d], end) < plan.blocks[d];
  }
  if (!inside) {
    for (std::int64_t t = 0; t < steps; ++t) {
      for (int d = 0; d < rank; ++d) {
        const std::int64_t i = index[d] + slope[d] * t;
        if (i < 0 || i >= plan.blocks[d]) return t;
      }
    }
  }
  const bool stays = !renew && o.resident && std::equal(index, index + rank, o.index.begin());
  const std::int64_t first = stays ? 1 : 0;
  const std::int64_t end = moves || renew ? steps : 1;
  // Steps whose block the array's edge cuts, in a dim along which the run moves.
  std::array<std::int64_t, kMaxRank> edges{};
  std::size_t count = 0;
  Shape usual = plan.in_bounds(index);
  for (int d = 0; d < rank; ++d) {
    if (slope[d] == 0) continue;
    usual[d] = plan.block[d];
    const std::int64_t to_go = plan.blocks[d] - 1 - index[d];
    if (plan.array[d] % plan.block[d] == 0 || to_go % slope[d] != 0) continue;
    const std::int64_t t = to_go / slope[d];
    const bool known = std::find(edges.begin(), edges.begin() + count, t) != edges.begin() + count;
    if (t >= first && t < end && !known) edges[count++] = t;
  }
  const std::int64_t transfers = std::max<std::int64_t>(0, end - first);
  const std::int64_t plain = transfers - static_cast<std::int64_t>(count);
  const Moved each = bytes_of(plan, device, usual);
  o.transfers += transfers;
  o.bytes += plain * each.bytes;
  o.padded_bytes += plain * each.padded;
  std::array<std::int64_t, kMaxRank> there{};
  for (std::size_t e = 0; e < count; ++e) {
    for (int d = 0; d < rank; ++d)
      there[static_cast<std::size_t>(d)] = index[d] + slope[d] * edges[e];
    const Moved cut = bytes_of(plan, device, plan.in_bounds(there.data()));
    o.bytes += cut.bytes;
    o.padded_bytes += cut.padded;
  }
  for (int d = 0; d < rank; ++d)
    o.index[static_cast<std::size_t>(d)] = index[d] + slope[d] * (steps - 1);
  o.resident = true;
  return -1;
}

void check_dry(const Plan& plan) {
  for (const OperandPlan& op : plan.operands) {
    if (!op.present || is_block(op.role)) continue;
    throw KernelError({.slug = "unsupported",
                       .kind = Diagnostic::Kind::unsupported,
                       .headline = "--dry of " + plan.kernel + ": its body copies by itself (" +
                                   op.name + "), and does not run"});
  }
}

RunResult dry_result(Plan plan, const DryCount& count, int devices) {
  RunResult result;
  result.dry = true;
  result.steps = count.steps * devices;
  result.grid.assign(count.extent.begin(), count.extent.begin() + plan.grid_rank);
  for (std::size_t i = 0; i < count.operands.size(); ++i) {
    const OperandPlan& op = plan.operands[i];
    if (!op.present || !op.pipelined()) continue;
    const DryOperand& o = count.operands[i];
    Movement m;
    m.ref = op.ledger_ref;
    m.why = op.role == Role::in ? Why::fetch : Why::writeback;
    m.from = op.role == Role::in ? Space::hbm : op.space;
    m.to = op.role == Role::in ? op.space : Space::hbm;
    m.transfers = o.transfers;
    m.bytes = o.bytes;
    m.padded_bytes = o.padded_bytes;
    for (m.device = 0; m.device < devices; ++m.device) plan.ledger.record(m);
  }
  close_ledger(plan, plan.ledger, devices, result.steps, [](int) { return true; });
  result.plan = std::move(plan);
  return result;
}

}  // namespace tessera::detail
