// Results that depend on what a block holds beyond its array.
//
// Tiles do not know which of their elements are undefined. Cells that had such a block run again
// with other numbers there: what differs depended on them. Of kernels that copy or meet devices all
// run again, under the same schedule; not across processes.
#include <algorithm>

#include "sim/diagnostics/stop.hpp"
#include "sim/pipeline/run_driver.hpp"

namespace tessera {

namespace {

bool holds_anything_beyond(const OperandPlan& op) {
  return op.role == Role::in && op.present && !op.padded &&
         op.outside == OperandPlan::Outside::numbers;
}

/// A number that no run finds there otherwise, and large if the type has such.
double other_number(DType d) {
  if (d == DType::boolean) return 0;  // else true
  if (bit_width(d) < 8) return bit_width(d) == 4 ? 4 : 1;
  if (!is_float(d)) return 90;
  return bit_width(d) == 8 ? 100 : d == DType::f16 ? 3e4 : 1e30;
}

std::int64_t differences(const Array& a, const Array& b, std::int64_t& first) {
  std::int64_t n = 0;
  if (std::equal(a.bytes(), a.bytes() + a.size_bytes(), b.bytes())) return n;
  for (std::int64_t e = 0; e < a.elems(); ++e) {
    const double x = a.at(e);
    const double y = b.at(e);
    if (x == y || (x != x && y != y)) continue;
    if (n++ == 0) first = e;
  }
  return n;
}

}  // namespace

/// What the outputs are with another plan for the cells in beyond_; `ended`: how a run of them did.
std::vector<Array> RunDriver::outputs_with(const Plan& plan, std::string& ended) const {
  std::vector<Array> outputs = outputs_;
  DeviceIo device = device_io_.front();
  device.arrays.clear();  // the machine's, if the run was on it
  std::size_t out = 0;
  for (std::size_t i = 0; i < plan.operands.size(); ++i) {
    const OperandPlan& op = plan.operands[i];
    device.bounds[i] = nullptr;
    std::fill(device.owner[i].begin(), device.owner[i].end(), 0);
    if (op.is_output() && op.present) device.hbm[i] = outputs[out++].bytes();
  }
  StepContext context = context_;
  context.plan = &plan;
  context.findings = nullptr;
  CoreIo io = io_;
  io.device = &device;
  io.context = &context;
  io.trap_nan = io.keep_checksums = io.keep_movements = io.break_at = false;
  io.error_model = nullptr;
  io.trace_steps = 0;
  io.at = nullptr;
  io.progress = nullptr;
  try {
    for (const std::int64_t cell : beyond_) {
      Pipeline core(kernel_, plan, io);  // of its own: the cells need not follow each other
      core.run_cells(cell, cell + 1);
    }
  } catch (const Stopped&) {
    throw;
  } catch (const KernelError& error) {
    ended = error.diagnostic.slug;
  }
  return outputs;
}

/// The same of all cells, on the machine and under the same schedule.
std::vector<Array> RunDriver::outputs_on_machine_with(const Plan& plan, const Schedule& schedule,
                                                      std::string& ended) const {
  const RunOptions options{.device = options_.device,
                           .mesh = options_.mesh,
                           .cores = options_.cores,
                           .find_races = false,  // found already
                           .profile = options_.profile,
                           .print = [](const std::string&) {},
                           .stop = options_.stop,
                           .who = options_.who};
  RunDriver again(kernel_, plan, inputs_, options);
  RunResult result;
  again.run_schedule(schedule, result);
  if (options.stop != nullptr && options.stop->load() != Stop::none) stop(options.stop->load());
  if (!result.ok()) ended = result.diagnostics.front().slug;
  return std::move(again.outputs_);
}

std::optional<Diagnostic> RunDriver::dependence_beyond(const Schedule* schedule) const {
  if (beyond_.empty() || options_.transport != nullptr) return std::nullopt;
  for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
    if (!holds_anything_beyond(plan_.operands[i])) continue;
    Plan plan = plan_;
    OperandPlan& op = plan.operands[i];
    op.padded = true;
    op.pad_value = other_number(op.dtype);
    std::string ended;
    const std::vector<Array> outputs = schedule == nullptr
                                           ? outputs_with(plan, ended)
                                           : outputs_on_machine_with(plan, *schedule, ended);
    std::size_t out = 0;
    for (const OperandPlan& to : plan_.operands) {
      if (!to.is_output() || !to.present) continue;
      std::int64_t first = 0;
      const std::int64_t n = ended.empty() ? differences(outputs_[out], outputs[out], first) : 0;
      if (n > 0 || !ended.empty()) return read_beyond(op, to, n, first, ended);
      ++out;
    }
  }
  return std::nullopt;
}

}  // namespace tessera
