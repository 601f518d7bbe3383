#include "cli/compiled_timing.hpp"

#include <fmt/format.h>

#include <utility>

#include "cli/module_call.hpp"
#include "cli/tpu_build.hpp"
#include "memory_model/file.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "tpu_compiler/call_to_check.hpp"
#include "tpu_compiler/played.hpp"

namespace tessera::cli {

namespace {

tpu_compiler::Question question_of(const RunArguments& a, const pallas::RecordedCall& r) {
  if (is_folder(a.kernel)) return tpu_compiler::question_of(a.kernel);
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  return tpu_compiler::question_of(read_file(a.kernel, kMostBytes), "", r.call);
}

/// `names`: of inputs, then of results.
void add_timing(const RunArguments& a, tpu_compiler::Question question, const program::Call& call,
                int devices, const std::vector<std::string>& names, report::RunReport& report) {
  report.timeline.emplace();
  std::string& why = report.timeline->unmodelled;
  const DeviceSpec& device = report.device;
  if (device.kind != DeviceSpec::Kind::tpu || device.jax.chip.empty()) {
    why = device.name + " is no TPU that its compiler knows";
    return;
  }
  if (devices > 1) {
    why = tpu_compiler::kOneDevice;
    return;
  }
  tpu_compiler::TpuCompiler compiler(compiler_settings(a));
  question.chip = device.jax.chip;
  const tpu_compiler::Verdict verdict = compiler.ask(question);
  if (verdict.kind != tpu_compiler::Verdict::Kind::accepted) {
    why = std::string("the compiler's answer is ") + name(verdict.kind) + ": " + verdict.sentence;
    return;
  }
  predict::TpuSchedule schedule =
      tpu_compiler::played_schedule(compiler.libtpu(), verdict, call, true, device, spans_of(a));
  why = schedule.unmodelled;
  if (!why.empty()) return;
  const std::size_t scalars = program::operands_before_inputs(*call.program);
  for (predict::ScheduleOperand& o : schedule.operands) {
    const std::size_t operand = static_cast<std::size_t>(o.index) - scalars;
    if (operand < names.size()) o.name = names[operand];
  }
  report.timeline = schedule.timeline;
  report.compiled = std::move(schedule);
  report.compiled_by = compiler.version();
}

}  // namespace

tpu_compiler::Settings compiler_settings(const RunArguments& a) {
  tpu_compiler::Settings settings;
  settings.python = a.python;
  settings.listings = tpu_compiler::Settings::Listings::schedule;
  settings.note = [](const std::string& text) { fmt::print(stderr, "tessera: {}\n", text); };
  return settings;
}

void add_module_timing(const RunArguments& a, const pallas::RecordedCall& r,
                       const RunResult& result, report::RunReport& report) {
  std::vector<std::string> names;
  for (const OperandPlan& op : result.plan.operands) names.push_back(op.name);
  add_timing(a, question_of(a, r), r.call, r.devices, names, report);
}

void add_kernel_timing(const KernelHandle& kernel, const Request& request, const RunArguments& a,
                       report::RunReport& report) {
  report.timeline.emplace();
  try {
    const TpuCall built = tpu_call_of(kernel, request);
    const auto c = tpu_compiler::call_to_check(kernel.info.name, built.call);
    if (c.failure) throw KernelError(*c.failure);
    add_timing(a, c.question, c.call, c.devices, built.names, report);
  } catch (const KernelError& e) {
    report.timeline->unmodelled = "it has no TPU build: " + e.diagnostic.headline;
  }
}

}  // namespace tessera::cli
