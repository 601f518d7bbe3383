// Pallas's pipeline on a TPU's core: while a step computes, the blocks of the next steps are on
// their way, as many steps ahead as operands have buffers, and the blocks of the steps before are
// written back. One queue of transfers at the core's share of the HBM bandwidth; products at the
// matrix unit's peak rate. The vector unit's rate is not published: elementwise work takes no time
// here, so a kernel that lives on it is slower than this says.
#include <algorithm>

#include "report/model_timelines.hpp"

namespace tessera::report {

namespace {

struct CoreTime {
  double compute = 0;
  double waiting = 0;
  double transfers = 0;
  double end = 0;
};

CoreTime core_timeline(const Plan& plan, const StepTrace& trace, double bytes_per_s,
                       double flops_per_s, std::int64_t first_cell, std::int64_t last_cell,
                       int core, const TimelineOptions& options, std::vector<Span>& spans) {
  const double latency = plan.device.dma_latency_s;
  const std::int64_t first = trace.cell_begin[static_cast<std::size_t>(first_cell)];
  const std::int64_t last = trace.cell_begin[static_cast<std::size_t>(last_cell)];
  const std::size_t operands = plan.operands.size();
  CoreTime time;
  constexpr std::int64_t kMostBuffers = 16;
  std::vector<double> ready(kMostBuffers + 1, 0.);     ///< the blocks of step n, at n % its size
  std::vector<std::vector<double>> written(operands);  ///< an output's buffers: when they are free
  std::vector<std::size_t> writes(operands, 0);
  for (std::size_t i = 0; i < operands; ++i)
    written[i].assign(static_cast<std::size_t>(std::max(1, plan.operands[i].buffers)), 0.);
  double queue = 0;
  double done = 0;
  const auto ready_at = [&](std::int64_t step) -> double& {
    return ready[static_cast<std::size_t>(step) % ready.size()];
  };
  const auto span = [&](Span::Unit unit, std::int64_t step, double begin, double end) {
    if (spans.size() < options.most_spans) spans.push_back({core, unit, step, begin, end});
  };
  const auto move = [&](const OperandPlan& op, std::int32_t block, double from) {
    const Shape index = unravel(op.blocks, block);
    const Shape inside = op.in_bounds(index.dims.data());
    const std::int64_t bytes =
        inside == op.block ? op.full_padded_bytes : plan.device.padded_bytes(op.dtype, inside);
    const double seconds = static_cast<double>(bytes) / bytes_per_s;
    const double begin = std::max(queue, from);
    queue = begin + seconds;
    time.transfers += seconds;
    return begin;
  };
  const auto fetch = [&](std::size_t i, std::int64_t step, double asked) {
    const OperandPlan& op = plan.operands[i];
    const auto s = static_cast<std::size_t>(step);
    const std::int32_t block = trace.blocks[i][s];
    if (step > first && trace.blocks[i][s - 1] == block) return;
    const double begin = move(op, block, asked);
    ready_at(step) = std::max(ready_at(step), queue + latency);
    span(Span::Unit::fetch, step, begin, queue + latency);
  };
  std::vector<std::pair<std::size_t, std::int64_t>> inputs;  ///< and how many steps ahead
  for (std::size_t i = 0; i < operands; ++i) {
    const OperandPlan& op = plan.operands[i];
    if (op.role == Role::in && op.present)
      inputs.emplace_back(i, std::clamp<std::int64_t>(op.buffers - 1, 0, kMostBuffers - 1));
  }
  for (std::int64_t step = first; step < std::min(last, first + kMostBuffers); ++step) {
    for (const auto& [i, ahead] : inputs)
      if (step < first + ahead) fetch(i, step, 0);
  }
  for (std::int64_t step = first; step < last; ++step) {
    const auto s = static_cast<std::size_t>(step);
    for (const auto& [i, ahead] : inputs)
      if (ahead == 0) fetch(i, step, done);
    double start = std::max(ready_at(step), done);
    ready_at(step) = 0;
    for (std::size_t i = 0; i < operands; ++i) {
      const OperandPlan& op = plan.operands[i];
      // The buffer that this step writes to has to be empty.
      if (op.role == Role::out && op.present)
        start = std::max(start, written[i][writes[i] % written[i].size()]);
    }
    for (const auto& [i, ahead] : inputs)
      if (ahead > 0 && step + ahead < last) fetch(i, step + ahead, start);
    time.waiting += start - done;
    const Work& work = trace.works[static_cast<std::size_t>(trace.work[s])];
    const double seconds = static_cast<double>(work.matrix_flops) / flops_per_s;
    time.compute += seconds;
    done = start + seconds;
    span(Span::Unit::compute, step, start, done);
    for (std::size_t i = 0; i < operands; ++i) {
      const OperandPlan& op = plan.operands[i];
      if (op.role != Role::out || !op.present) continue;
      const std::int32_t block = trace.blocks[i][s];
      if (step + 1 < last && trace.blocks[i][s + 1] == block) continue;
      const double begin = move(op, block, done);
      written[i][writes[i]++ % written[i].size()] = queue + latency;
      time.end = std::max(time.end, queue + latency);
      span(Span::Unit::write, step, begin, queue + latency);
    }
  }
  time.end = std::max(time.end, done);
  return time;
}

}  // namespace

Timeline tpu_timeline(const Plan& plan, const StepTrace& trace, DType dtype,
                      const TimelineOptions& options) {
  Timeline line;
  const double cores = std::max(plan.device.cores, options.cores);
  const double flops = plan.device.peak(dtype) / cores;
  const double bytes = plan.device.hbm_bytes_per_s / cores;
  const std::int64_t cells = trace.cells();
  std::vector<CoreTime> times;
  for (int c = 0; c < options.cores; ++c) {
    times.push_back(core_timeline(plan, trace, bytes, flops, cells * c / options.cores,
                                  cells * (c + 1) / options.cores, c, options, line.spans));
  }
  double compute = 0;
  double transfers = 0;
  for (const CoreTime& t : times) {
    line.seconds = std::max(line.seconds, t.end);
    compute = std::max(compute, t.compute);
    transfers = std::max(transfers, t.transfers);
    line.compute_seconds += t.compute / options.cores;
    line.exposed_seconds += t.waiting / options.cores;
  }
  line.idle_seconds = std::max(0., line.seconds - line.compute_seconds - line.exposed_seconds);
  const bool elementwise = std::any_of(trace.works.begin(), trace.works.end(),
                                       [](const Work& w) { return w.elements > 0; });
  if (elementwise) line.left_out = "elementwise work: the vector unit's rate is not published";
  if (line.seconds > 0)
    line.busy = {{"matrix unit", compute / line.seconds}, {"HBM", transfers / line.seconds}};
  return line;
}

}  // namespace tessera::report
