#include "cli/unit_timing.hpp"

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "cli/tpu_build.hpp"
#include "program/unit_count.hpp"
#include "report/line_costs.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "tpu_compiler/call_to_check.hpp"

namespace tessera::cli {

namespace {

/// The row of a ledger with that row's name of another; -1: it has none.
int same_ref(int ref, const Ledger& of, const Ledger& in) {
  if (ref < 0) return ref;
  const std::string& name = of.refs()[static_cast<std::size_t>(ref)].name;
  for (std::size_t i = 0; i < in.refs().size(); ++i)
    if (in.refs()[i].name == name) return static_cast<int>(i);
  return -1;
}

/// The line of a program that is gone when it is shown.
Here kept(Here at) {
  static std::mutex mutex;
  static std::set<std::string> files;
  const std::lock_guard lock(mutex);
  if (at.file != nullptr) at.file = files.emplace(at.file).first->c_str();
  return at;
}

/// Of the build alone, on one process: the kernel has run, with all that was asked of its run.
RunOptions options_of(const Request& request, const report::RunReport& report) {
  RunOptions options = request.options;
  options.device = report.device;
  options.mesh = report.mesh;
  options.transport = nullptr;
  options.progress = {};
  options.at = {};
  options.break_at = false;
  options.trap_nan = false;
  options.dry = true;
  return options;
}

/// A kernel's TPU build, to be run.
struct Build {
  TpuCall built;
  tpu_compiler::CallToCheck planned;
};
/// `dry`: with no more data than what is counted needs.
std::unique_ptr<Build> build_of(const KernelHandle& kernel, const Request& request, bool dry) {
  Request asked = request;
  asked.options.dry = dry;
  auto build = std::make_unique<Build>();
  build->built = tpu_call_of(kernel, asked, true);
  build->planned = tpu_compiler::call_to_check(kernel.info.name, build->built.call);
  if (build->planned.failure) throw KernelError(*build->planned.failure);
  build->planned.call.names = build->built.names;
  return build;
}

}  // namespace

std::string add_unit_timing(const KernelHandle& kernel, const Request& request,
                            const Timing& timing, report::RunReport& report) {
  const DeviceSpec& device = report.device;
  if (device.kind != DeviceSpec::Kind::tpu || program::unit_costs(device.jax.chip) == nullptr)
    return "nobody measured the units of " + device.name;
  try {
    std::unique_ptr<Build> build = build_of(kernel, request, true);
    RunOptions options = options_of(request, report);
    RunResult result = program::run_call(build->planned.call, options);
    if (!result.ok() || !result.no_work.empty()) {
      if (timing.by != "units")
        return "data decides what its TPU build does (--timing units runs that)";
      build = build_of(kernel, request, false);
      options.dry = false;
      result = program::run_call(build->planned.call, options);
    }
    if (!result.ok()) throw KernelError(result.diagnostics.front());
    if (result.trace.most == 0) return "the run has too many steps: --timeline predicts them";
    predict::Timeline timeline = predict::timeline_of(
        result.plan, result.trace, report.dtype,
        {.most_spans = timing.spans, .cores = report.cores, .mesh = report.mesh});
    if (!timeline.unmodelled.empty()) return timeline.unmodelled;
    std::vector<report::LineCost> costs = report::line_costs(result, timeline, report.cores);
    const Ledger& own = result.ledger();
    const auto rename = [&](auto& list) {
      for (auto& each : list) each.ref = same_ref(each.ref, own, report.ledger);
    };
    rename(timeline.stalls);
    rename(timeline.spans);
    for (predict::Span& span : timeline.spans) span.at = kept(span.at);
    for (report::LineCost& cost : costs) rename(cost.stalls);
    report.timeline = std::move(timeline);
    report.costs = std::move(costs);
    return "";
  } catch (const KernelError& e) {
    return "it has no TPU build: " + e.diagnostic.headline;
  }
}

}  // namespace tessera::cli
