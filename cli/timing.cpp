#include "cli/timing.hpp"

#include <fmt/format.h>

#include "cli/cuda_timing.hpp"
#include "cli/module_commands.hpp"

namespace tessera::cli {

namespace {

/// Why the units of the kernel's TPU build do not say; "": they do.
std::string add_units(const KernelHandle& kernel, const Request& request, const Timing& timing,
                      report::RunReport& report) {
  try {
    return module_commands().add_unit_timing(kernel, request, timing, report);
  } catch (const InputError& e) {  // what reads modules, or writes this one's, is not in the build
    if (e.slug == "bad-unit-costs") throw;  // which somebody asked for
    if (e.slug != "not-built") return e.what();
    return fmt::format(
        "its TPU build, whose units are counted, is not compiled: ./tessera run {} --timing units "
        "does that",
        kernel.info.name);
  }
}

}  // namespace

void add_timing(const KernelHandle& kernel, const Request& request, const RunResult& result,
                const Timing& timing, report::RunReport& report) {
  if (timing.by == "units" && result.ok()) {
    const std::string why = module_commands().add_unit_timing(kernel, request, timing, report);
    if (!why.empty()) report.timeline.emplace().unmodelled = why;
    return;
  }
  if (timing.by == "compiler" && report.device.kind == DeviceSpec::Kind::gpu && result.ok())
    return add_cuda_timing(kernel, request, result, timing.spans, report);
  report::add_timeline(report, result, timing.spans);
  const bool predicted = report.timeline && report.timeline->unmodelled.empty();
  if (timing.by != "best" || !predicted || report.device.kind != DeviceSpec::Kind::tpu) return;
  if (std::string why = add_units(kernel, request, timing, report); !why.empty())
    report.timeline->why_model = std::move(why);
}

}  // namespace tessera::cli
