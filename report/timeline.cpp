#include "report/timeline.hpp"

#include <algorithm>

#include "report/model_timelines.hpp"

namespace tessera::report {

namespace {

std::string why_not(const StepTrace& trace) {
  if (!trace.complete) {
    if (trace.too_many_acts) return "more than 2^21 copies, waits and signals";
    return trace.most < StepTrace::kMostSteps
               ? "more than " + std::to_string(trace.most) + " steps: --timeline"
               : "more than 2^24 steps";
  }
  if (trace.steps == 0 || trace.work.empty()) return "the work of its steps is not known";
  return "";
}

}  // namespace

std::string unmodelled(const Plan& plan, DType dtype) {
  if (plan.device.peak(dtype) <= 0)
    return plan.device.name + " has no peak rate for " + tessera::name(dtype);
  if (plan.device.kind == DeviceSpec::Kind::tpu) return "";
  for (const OperandPlan& op : plan.operands) {
    if (op.present && (in_hbm(op.role) || is_semaphore(op.role)))
      return "its body copies by itself (" + op.name + ")";
  }
  if (plan.device.model.empty()) return "no model has been fitted to " + plan.device.name;
  return "";
}

Timeline timeline_of(const Plan& plan, const StepTrace& trace, DType dtype,
                     const TimelineOptions& options) {
  Timeline line;
  line.unmodelled = unmodelled(plan, dtype);
  if (line.unmodelled.empty()) line.unmodelled = why_not(trace);
  const bool tpu = plan.device.kind == DeviceSpec::Kind::tpu;
  if (line.unmodelled.empty() && !tpu && trace.scripted())
    line.unmodelled = "its body copies by itself";
  if (!line.unmodelled.empty()) return line;
  line =
      tpu ? tpu_timeline(plan, trace, dtype, options) : gpu_timeline(plan, trace, dtype, options);
  if (!line.unmodelled.empty()) return line;
  const auto most =
      std::max_element(line.busy.begin(), line.busy.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  // A resource that is busy for most of the time binds; else steps wait for one another.
  constexpr double kMostOfTheTime = 0.7;
  if (most != line.busy.end())
    line.binds = most->second >= kMostOfTheTime ? most->first : "latency of steps";
  return line;
}

}  // namespace tessera::report
