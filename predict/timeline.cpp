#include "predict/timeline.hpp"

#include <algorithm>

#include "predict/model_timelines.hpp"

namespace tessera::predict {

namespace {

std::string why_not(const StepTrace& trace) {
  if (!trace.complete) {
    if (trace.too_many_acts)
      return "more than 2^18 copies, waits and signals in a step, or 2^21 in all";
    return trace.most < StepTrace::kMostSteps
               ? "more than " + std::to_string(trace.most) + " steps: --timeline"
               : "more than 2^24 steps";
  }
  if (trace.steps == 0 || trace.work.empty()) return "the work of its steps is not known";
  return "";
}

/// The resource that is busy for most of the time; else steps wait for one another.
template <class Fraction>
std::string binding(const Timeline& line, Fraction&& of) {
  constexpr double kMostOfTheTime = 0.7;
  const auto most =
      std::max_element(line.busy.begin(), line.busy.end(),
                       [&](const Resource& a, const Resource& b) { return of(a) < of(b); });
  return of(*most) >= kMostOfTheTime ? most->name : "latency of steps";
}

/// Equal parts of the time by what binds in them; the shortest phases go to longer neighbours.
std::vector<Phase> phases_of(const Timeline& line) {
  constexpr std::size_t kMost = 5;
  const double part = line.seconds / static_cast<double>(Resource::kParts);
  std::vector<Phase> phases;
  const auto join = [&] {
    std::vector<Phase> joined;
    for (Phase& p : phases) {
      if (!joined.empty() && joined.back().binds == p.binds)
        joined.back().end = p.end;
      else
        joined.push_back(std::move(p));
    }
    phases = std::move(joined);
  };
  for (std::size_t i = 0; i < Resource::kParts; ++i) {
    // Where nothing is busy and nobody computes nothing has begun, or all has ended.
    constexpr double kNothing = 0.02;
    const bool idle = std::all_of(line.busy.begin(), line.busy.end(),
                                  [&](const Resource& r) { return r.over[i] < kNothing; }) &&
                      (line.computing.empty() || line.computing[i] < kNothing);
    phases.push_back({static_cast<double>(i) * part, static_cast<double>(i + 1) * part,
                      idle ? "idle" : binding(line, [&](const Resource& r) { return r.over[i]; })});
  }
  join();
  while (phases.size() > kMost) {
    const auto length = [](const Phase& p) { return p.end - p.begin; };
    const auto least =
        std::min_element(phases.begin(), phases.end(),
                         [&](const Phase& a, const Phase& b) { return length(a) < length(b); });
    const bool forward = least == phases.begin() ||
                         (least + 1 != phases.end() && length(least[1]) > length(least[-1]));
    least->binds = forward ? least[1].binds : least[-1].binds;
    join();
  }
  return phases;
}

}  // namespace

std::string unmodelled(const Plan& plan, DType dtype) {
  if (plan.core) return "";
  if (plan.device.peak(dtype) <= 0)
    return plan.device.name + " has no peak rate for " + tessera::name(dtype);
  if (plan.device.kind == DeviceSpec::Kind::tpu) return "";
  for (const OperandPlan& op : plan.operands) {
    if (op.present && (in_hbm(op.role) || is_semaphore(op.role)))
      return "its body copies by itself (" + op.name + ")";
  }
  for (const OperandPlan& op : plan.operands) {
    if (op.present && op.role == Role::vmem && plan.peers)
      return "its scratch lies in device memory (" + op.name + ")";
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
  if (line.busy.empty()) return line;  // not modelled after all, or nothing ran
  say_what_binds(line);
  return line;
}

void say_what_binds(Timeline& line) {
  line.binds = binding(line, [](const Resource& r) { return r.busy; });
  line.phases = phases_of(line);
}

}  // namespace tessera::predict
