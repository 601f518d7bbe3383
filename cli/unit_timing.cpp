#include "cli/unit_timing.hpp"

#include <utility>

#include "cli/tpu_build.hpp"
#include "program/unit_costs.hpp"
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

/// Counted alone; run where data decides what it does.
RunResult counted(const program::Call& call, RunOptions options) {
  options.dry = true;
  RunResult result = program::run_call(call, options);
  if (result.ok() && result.no_work.empty()) return result;
  options.dry = false;
  return program::run_call(call, options);
}

}  // namespace

void add_unit_timing(const KernelHandle& kernel, const Request& request, const RunArguments& a,
                     report::RunReport& report) {
  predict::Timeline& timeline = report.timeline.emplace();
  const DeviceSpec& device = report.device;
  if (device.kind != DeviceSpec::Kind::tpu || program::unit_costs(device.jax.chip) == nullptr) {
    timeline.unmodelled = "nobody measured the units of " + device.name;
    return;
  }
  try {
    const TpuCall built = tpu_call_of(kernel, request);
    auto c = tpu_compiler::call_to_check(kernel.info.name, built.call);
    if (c.failure) throw KernelError(*c.failure);
    c.call.names = built.names;
    RunOptions options = request.options;
    options.device = device;
    options.mesh = report.mesh;
    options.progress = {};
    options.at = {};
    const RunResult result = counted(c.call, options);
    if (!result.ok()) throw KernelError(result.diagnostics.front());
    if (result.trace.most == 0) {
      timeline.unmodelled = "the run has too many steps: --timeline predicts them";
      return;
    }
    timeline = predict::timeline_of(
        result.plan, result.trace, report.dtype,
        {.most_spans = spans_of(a), .cores = report.cores, .mesh = report.mesh});
    report.costs = report::line_costs(result, timeline, report.cores);
    const Ledger& own = result.ledger();
    const auto rename = [&](auto& list) {
      for (auto& each : list) each.ref = same_ref(each.ref, own, report.ledger);
    };
    rename(timeline.stalls);
    rename(timeline.spans);
    for (report::LineCost& cost : report.costs) rename(cost.stalls);
  } catch (const KernelError& e) {
    timeline.unmodelled = "it has no TPU build: " + e.diagnostic.headline;
  }
}

}  // namespace tessera::cli
