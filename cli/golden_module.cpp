// Goldens of Mosaic modules: `tessera golden make MODULE`, and running one again.
#include "cli/command_line.hpp"
#include "cli/module_call.hpp"
#include "cli/progress.hpp"
#include "golden/call_golden.hpp"

namespace tessera::cli {

namespace {

RunResult run_with_progress(const pallas::RecordedCall& r, RunOptions& options) {
  Progress progress(r.program->name);
  options.progress = [&](double done) { progress.show(done); };
  return program::run_call(r.call, options);
}

}  // namespace

golden::Golden make_module_golden(const RunArguments& a, const ErrorModel& model,
                                  const std::string& command,
                                  std::vector<Diagnostic>& diagnostics) {
  if (!a.assignments.empty())
    throw InputError("bad-input", "a module has no parameters; its shapes are fixed");
  const pallas::RecordedCall r = call_of(a);
  RunOptions options = call_options(a, r);
  if (options.mesh != std::vector<int>{1}) {
    diagnostics.push_back({.slug = "unsupported",
                           .kind = Diagnostic::Kind::unsupported,
                           .headline = "goldens of a call on several devices"});
    return {};
  }
  options.error_model = model;
  options.keep_checksums = true;
  options.command = command_of("run", a);
  RunResult result = run_with_progress(r, options);
  diagnostics = result.diagnostics;
  if (!result.ok()) return {};
  const auto files = files_of(a, r, options, result);
  return golden::golden_of_call(r.program->name, operands_of(r.call), files, std::move(result),
                                options, command);
}

RunResult run_module_again(const RunArguments& a, const golden::Golden& made,
                           const std::string& folder, bool keep_checksums) {
  RunArguments again = a;
  again.kernel = folder + "/inputs";
  if (!pallas::device_of_call(again.kernel)) again.device = made.device;  // an older golden
  again.profile = made.profile;
  const pallas::RecordedCall r = call_of(again);
  RunOptions options = call_options(again, r);
  options.keep_checksums = keep_checksums;
  options.command = command_of("run", again);
  return run_with_progress(r, options);
}

}  // namespace tessera::cli
