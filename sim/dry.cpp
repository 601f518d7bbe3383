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

void trace_run(const OperandPlan& plan, const std::int64_t* index, const std::int64_t* slope,
               std::int64_t steps, std::vector<std::int32_t>& to) {
  std::int64_t at = 0;
  std::int64_t each = 0;
  for (int d = 0; d < plan.blocks.rank; ++d) {
    at = at * plan.blocks[d] + index[d];
    each = each * plan.blocks[d] + slope[d];
  }
  for (std::int64_t t = 0; t < steps; ++t) to.push_back(static_cast<std::int32_t>(at + t * each));
}

std::size_t CountedBodies::Hash::operator()(const Key& key) const {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, by words
  for (const std::int64_t word : key)
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x100000001b3;
  return static_cast<std::size_t>(hash ^ hash >> 32);
}

CountedBodies::Key CountedBodies::key() const {
  Key key{};
  for (std::size_t d = 0; d < kMaxGridRank; ++d) {
    const unsigned bit = 1u << d;
    const int id = core_.ids[d];
    if ((use_.exact & bit) != 0) key[2 * d] = 4 + std::int64_t{id};
    if ((use_.ends & bit) != 0)
      key[2 * d + 1] = (id == core_.lo[d] ? 1 : 0) + (id == core_.hi[d] - 1 ? 2 : 0);
    if ((use_.extents & bit) != 0) key[2 * d + 1] += 4 * (std::int64_t{core_.hi[d]} - core_.lo[d]);
  }
  return key;
}

std::size_t CountedBodies::body() {
  ++asked_;
  const auto found = known_.find(key());
  if (found != known_.end()) return found->second;
  core_.use = {};
  core_.copies.clear();
  core_.script.clear();
  core_.work = {};
  counted_work = {};
  run_();
  if (!core_.script.empty()) core_.end_work();
  const std::size_t script = number_of_script();
  const IdUse grown = use_ | core_.use;
  if (!(grown == use_)) known_.clear();
  use_ = grown;
  counts_.push_back({core_.work.add(counted_work, 1), core_.copies, script});
  known_.emplace(key(), counts_.size() - 1);
  return counts_.size() - 1;
}

std::size_t CountedBodies::number_of_script() {
  if (core_.script.empty()) return 0;
  const std::uint64_t hash = hash_of(core_.script);
  const auto [first, last] = known_scripts_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (scripts_[at->second] == core_.script) return at->second;
  }
  known_scripts_.emplace(hash, scripts_.size());
  acts_ += std::ssize(core_.script);
  scripts_.push_back(core_.script);
  return scripts_.size() - 1;
}

std::int64_t CountedBodies::alike_along(int dim) const {
  const auto d = static_cast<std::size_t>(dim);
  const unsigned bit = 1u << d;
  if ((use_.exact & bit) != 0) return 1;
  const std::int64_t left = core_.hi[d] - std::int64_t{core_.ids[d]};
  if ((use_.ends & bit) == 0) return left;
  if (core_.ids[d] == core_.lo[d]) return 1;
  return std::max<std::int64_t>(1, left - 1);
}

void add_walk(RunResult& result, const DryCount& count, int device) {
  Plan& plan = result.plan;
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
    m.device = device;
    plan.ledger.record(m);
  }
  result.steps += count.steps;
  result.flops += count.work.flops;
  result.transcendentals += count.work.transcendentals;
  if (count.no_work != nullptr) {
    result.no_work = count.no_work;
    result.flops = 0;
    result.transcendentals = 0;
  }
  result.grid.resize(static_cast<std::size_t>(plan.grid_rank));
  for (std::size_t d = 0; d < result.grid.size(); ++d)
    result.grid[d] = std::max(result.grid[d], count.extent[d]);
}

StepTrace* trace_for(RunResult& result, const RunOptions& options, int device) {
  if (options.trace_steps == 0) return nullptr;
  if (device == 0) return &result.trace;
  if (!result.trace.scripted()) return nullptr;
  auto& peers = result.trace.peers;
  while (std::ssize(peers) < device) peers.emplace_back().most = options.trace_steps;
  return &peers[static_cast<std::size_t>(device - 1)];
}

void end_dry(RunResult& result, const Machine& machine) {
  add_scoped_peaks(machine, result.plan);
  close_ledger(result.plan, result.plan.ledger, machine.devices(), result.steps,
               [](int) { return true; });
  result.trace.close(result.grid);
}

void fail_value_needed(const Plan& plan) {
  throw KernelError(
      {.slug = "unsupported",
       .kind = Diagnostic::Kind::unsupported,
       .headline = "--dry of " + plan.kernel +
                   ": its body decides by values what it copies, and there are none"});
}

}  // namespace tessera::detail
