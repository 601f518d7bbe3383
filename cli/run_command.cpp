#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/advice.hpp"
#include "cli/colour.hpp"
#include "cli/command_line.hpp"
#include "cli/cuda_timing.hpp"
#include "cli/gpu_bench.hpp"
#include "cli/libraries.hpp"
#include "cli/module_commands.hpp"
#include "cli/progress.hpp"
#include "cli/ranks.hpp"
#include "cli/recorded.hpp"
#include "cli/scheduled.hpp"
#include "cli/timing.hpp"
#include "cli/tuned.hpp"
#include "memory_model/npy.hpp"
#include "report/html_report.hpp"
#include "report/perfetto_trace.hpp"
#include "report/run_report.hpp"

namespace tessera::cli {

namespace {

/// Those that started this program.
std::vector<std::string> own_words() {
  std::ifstream arguments("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(arguments, word, '\0');) words.push_back(word);
  return words;
}

/// The same as a line, the program by its name.
std::string command_line() {
  std::vector<std::string> words = own_words();
  if (!words.empty()) words[0] = std::filesystem::path(words[0]).filename().string();
  return joined(words);
}

std::vector<int> parse_step(const std::string& text) {
  std::vector<int> ids;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    ids.push_back(static_cast<int>(parse_number("--at", text.substr(start, comma - start), false)));
    start = comma + 1;
  }
  return ids;
}

bool debugger_attached() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("TracerPid:")) return line.find_first_of("123456789") != std::string::npos;
  }
  return false;
}

/// --break stops in gdb. Without a debugger, start this very command under one.
void start_debugger() {
  std::vector<std::string> words{"gdb",   "-q",  "-x",  handed_out("scripts/tessera_gdb.py"),
                                 "-ex",   "run", "-ex", "tessera-body",
                                 "--args"};
  for (auto& word : own_words()) words.push_back(std::move(word));
  if (isatty(STDIN_FILENO) == 0)
    throw InputError("bad-input",
                     "--break needs a debugger, and there is no terminal to start one in",
                     joined(words));
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp("gdb", argv.data());
  throw InputError("bad-input", "--break needs gdb, which is not installed", "apt-get install gdb");
}

/// The smallest change of one tile that makes the blocks fit: halved until they do.
std::string fitting_tile(const KernelHandle& kernel, const Request& request,
                         const Setting& setting) {
  constexpr int kHalvings = 6;
  for (int halvings = 1; halvings <= kHalvings; ++halvings) {
    for (const auto& [name, extent] : setting.tiles) {
      Request smaller = request;
      smaller.assignments.emplace_back(name, std::to_string(extent >> halvings));
      try {
        Plan plan = kernel.describe(smaller).plan;
        finish_plan(plan);
        return name + "=" + std::to_string(extent >> halvings);
      } catch (const KernelError&) {
      } catch (const InputError&) {
      }
    }
  }
  return "";
}

}  // namespace

report::RunReport report_of(const KernelHandle& kernel, const Request& request,
                            const Outcome& outcome) {
  RunOptions options = request.options;
  options.device = request.device;
  report::RunReport r = report::report_of(outcome.result, options);
  r.kernel = kernel.info.name;
  r.case_name = outcome.setting.case_name;
  for (const auto& s : outcome.setting.sizes) r.sizes.emplace_back(s.name, s.value);
  r.tiles = outcome.setting.tiles;
  r.dtype = request.dtype;
  const Receipt& receipt = outcome.receipt;
  r.backend_requested = receipt.requested;
  r.backend_ran = name(receipt.ran);
  r.backend_why = receipt.why;
  if (receipt.ran != BackendKind::interpret) {
    r.elsewhere = report::Elsewhere{};
    r.elsewhere->closed_form = outcome.closed_form;
    r.elsewhere->where = receipt.device;
    const cuda::Launched& launch = receipt.launch;
    r.elsewhere->seconds = launch.seconds;
    r.elsewhere->tensor_cores = launch.tensor_cores;
    if (receipt.ran == BackendKind::cuda) {
      r.elsewhere->launch = fmt::format(
          "{}{} cells, CTAs of {} threads, {} registers each ({} bytes spilled), {} stages, {} of "
          "shared memory; products by {}; {} inputs by {}, {} by threads{}",
          launch.built_for == 90 ? "" : fmt::format("the portable path, sm_{}; ", launch.built_for),
          with_commas(launch.cells), launch.threads, launch.registers, launch.local_bytes,
          launch.stages, human_bytes(launch.shared_bytes),
          launch.mma_sync       ? "mma.sync"
          : launch.tensor_cores ? "wgmma"
                                : "FMA chains",
          launch.by_copy_engine, launch.built_for == 90 ? "TMA" : "cp.async", launch.by_threads,
          launch.spread > 0 ? fmt::format("; {} copied first", launch.spread) : "");
    }
  }
  r.mesh = outcome.mesh;
  if (outcome.validation) {
    const auto& v = *outcome.validation;
    r.validation = {v.reference,   v.passed,  v.max_abs_err,
                    v.max_rel_err, v.max_ulp, v.worst_of_bound};
  }
  return r;
}

int exit_code(const std::vector<Diagnostic>& diagnostics) {
  int code = 0;
  for (const auto& d : diagnostics) {
    switch (d.kind) {
      case Diagnostic::Kind::kernel:
        code = std::max(code, 1);
        break;
      case Diagnostic::Kind::unsupported:
      case Diagnostic::Kind::unmodelled:
        code = std::max(code, 3);
        break;
      case Diagnostic::Kind::internal:
        code = 70;
        break;
    }
  }
  return code;
}

void check_destinations(const RunArguments& a) {
  std::error_code error;
  if (!a.output.empty()) std::filesystem::create_directories(a.output, error);
  if (error) throw InputError("bad-input", "--output " + a.output + ": " + error.message());
  for (const auto& [option, file] :
       {std::pair{"--json ", a.json}, {"--report ", a.report}, {"--trace ", a.trace}}) {
    const std::filesystem::path parent = std::filesystem::path(file).parent_path();
    if (file != "-" && !parent.empty() && !std::filesystem::is_directory(parent, error))
      throw InputError("bad-input", option + file + ": no folder " + parent.string());
  }
}

std::FILE* prose_of(const RunArguments& a) { return a.json == "-" ? stderr : stdout; }

std::size_t spans_of(const RunArguments& a) {
  constexpr std::size_t kTraceSpans = 500'000;  // some ten megabytes
  return !a.trace.empty() ? kTraceSpans : !a.report.empty() ? report::kPageSpans : 0;
}

void write_reports(const RunArguments& a, const report::RunReport& report,
                   const RunResult& result) {
  if (a.json == "-")
    fmt::print("{}", report::json_of(report));
  else if (!a.json.empty())
    write_file_atomically(a.json, report::json_of(report));
  if (!a.report.empty())
    write_file_atomically(a.report, report::html_of(report, result, command_line()));
  if (a.trace.empty()) return;
  if (!report.timeline || !report.timeline->unmodelled.empty()) {
    throw InputError("bad-input", "--trace: there is no timeline: " +
                                      (report.timeline ? report.timeline->unmodelled
                                                       : "the run has no trace of its steps"));
  }
  const bool gpu = report.device.kind == DeviceSpec::Kind::gpu;
  write_file_atomically(a.trace,
                        report::perfetto_trace_of(*report.timeline, result.plan, report.ledger,
                                                  report.kernel, gpu ? "SM" : "core"));
}

void stop_in_debugger(const RunArguments& a) {
  if (a.break_at && a.at.empty()) throw InputError("bad-input", "--break needs --at i,j,...");
  if (a.break_at && !debugger_attached()) start_debugger();
}

namespace {

/// What the run's time, and the advice of its page, are from. `recorded`: what a record keeps is
/// the same in every build.
Timing timing_of(const RunArguments& a, bool recorded) {
  return {.by = recorded                 ? "model"
                : a.timing == "compiler" ? "best"
                                         : a.timing,
          .spans = spans_of(a)};
}

/// Of a page: what near by is predicted to be faster. `request` as it ran; counted without data.
std::vector<std::string> advice_of(const KernelHandle& kernel, const RunArguments& a,
                                   const Request& request, const Setting& setting, Timing timing) {
  constexpr std::size_t kMost = 3;
  if (a.report.empty() || setting.tiles.empty()) return {};
  RunArguments counted = a;
  counted.dry = true;
  counted.output.clear();
  counted.schedule.clear();
  counted.at.clear();
  counted.trap.clear();
  counted.inputs.clear();
  Request base = request_of(kernel, counted);
  base.assignments = request.assignments;
  timing.spans = 0;
  return worth_trying(advice_on(kernel, base, a.device, threads_of(a), timing), setting.tiles,
                      kMost);
}

void add_run_timing(const KernelHandle& kernel, const Request& request, const RunResult& result,
                    const RunArguments& a, bool recorded, report::RunReport& report) {
  if (a.timing == "compiler" && result.ok() && request.device.kind == DeviceSpec::Kind::gpu)
    return add_cuda_timing(kernel, request, result, spans_of(a), report);
  if (a.timing == "compiler" && result.ok())
    return module_commands().add_compiled_timing(kernel, request, a, report);
  add_timing(kernel, request, result, timing_of(a, recorded), report);
  if (recorded && report.timeline && report.device.kind == DeviceSpec::Kind::tpu)
    report.timeline->why_model = "a record keeps that";
}

}  // namespace

Watch::Watch(const RunArguments& a, std::size_t rank, RunOptions& options) : at_(a.at) {
  if (!a.trap.empty() && a.trap != "nan")
    throw InputError("bad-input", "--trap takes 'nan', not '" + a.trap + "'");
  options.trap_nan = a.trap == "nan";
  if (at_.empty()) return;
  options.at = parse_step(at_);
  if (options.at.size() != rank)
    throw InputError("bad-input",
                     fmt::format("--at takes {} program ids, the rank of the grid", rank));
  options.on_step = [this, to = prose_of(a)](const std::string& blocks) {
    reached_ = true;
    fmt::print(to, "at grid step {}, before the body:\n{}\n", at_, blocks);
    std::fflush(to);
  };
}

void Watch::check(const RunResult& result) const {
  if (!at_.empty() && !reached_ && result.ok())
    throw InputError("bad-input", "the grid has no step " + at_);
}

int run_command(const Kernels& kernels, const RunArguments& a) {
  const std::unique_ptr<Transport> ranks = connect_ranks();
  const bool silent = ranks && ranks->rank() > 0;  // rank 0 has the whole result
  const KernelHandle& kernel = kernels.find(a.kernel);
  Request request = request_of(kernel, a);
  std::optional<report::Choice> choice;
  if (a.tuned) {
    const std::optional<Gpu> gpu = gpu_of(kernel, a);
    Request predicted = request;
    if (gpu) predicted.device = find_device(gpu->spec);
    const TunedKernel tuned(kernel, std::move(predicted), a.timing);
    std::unique_ptr<Scheduler> scheduler;
    if (!gpu && why_not_scheduled(tuned).empty()) scheduler = scheduler_of(tuned, a);
    const tuning::Answer answer =
        resolve(tuned, a, gpu ? judge_of(gpu, tuned, a) : judge_of(scheduler.get(), tuned, a));
    choice = choice_of(answer);
    request.assignments.insert(request.assignments.end(), answer.configuration.begin(),
                               answer.configuration.end());
  }
  request.options.transport = ranks.get();
  if (ranks && request.options.schedule &&
      request.options.schedule->kind == Schedule::Kind::explore) {
    throw InputError("bad-input", "explore runs in one process, without mpirun");
  }
  const Watch watch(
      a, a.at.empty() ? 0 : static_cast<std::size_t>(kernel.describe(request).plan.grid_rank),
      request.options);
  stop_in_debugger(a);
  request.options.break_at = a.break_at;
  check_destinations(a);
  const std::optional<Recording> recording = recording_of(a);
  if (recording && !silent) request.keep_inputs = true;
  if (!a.trace.empty()) {
    const std::string why = predict::unmodelled(kernel.describe(request).plan, request.dtype);
    if (!why.empty()) throw InputError("bad-input", "--trace: there is no timeline: " + why);
  }

  Outcome outcome;
  {
    Progress progress(kernel.info.name);
    if (!silent) {
      request.options.progress = [&](double done) { progress.show(done); };
      request.phase = [&](const char* what) { progress.phase(what); };
    }
    outcome = kernel.run(request);
  }
  watch.check(outcome.result);
  if (!outcome.result.ok() && outcome.result.diagnostics[0].slug == "vmem-capacity") {
    const std::string fits = fitting_tile(kernel, request, outcome.setting);
    if (!fits.empty()) outcome.result.diagnostics[0].fields.emplace_back("fits", fits);
  }
  if (silent) return exit_code(outcome.result.diagnostics);
  report::RunReport report = report_of(kernel, request, outcome);
  report.choice = std::move(choice);
  add_run_timing(kernel, request, outcome.result, a, recording.has_value(), report);
  if (outcome.result.ok() && report.backend_ran == "interpret")
    report.advice =
        advice_of(kernel, a, request, outcome.setting, timing_of(a, recording.has_value()));
  if (recording) record_run(*recording, kernel, request, outcome, report);
  if (outcome.result.ok() || outcome.validation) {
    fmt::print(prose_of(a), "{}", coloured_report(prose_of(a), report::text_of(report)));
  }
  std::fflush(nullptr);
  for (const auto& d : outcome.result.diagnostics) say(d);
  if (!a.output.empty() && (outcome.result.ok() || outcome.validation)) {
    for (std::size_t i = 0; i < outcome.output_names.size(); ++i) {
      write_npy(a.output + "/" + outcome.output_names[i] + ".npy", outcome.result.outputs[i]);
    }
  }
  write_reports(a, report, outcome.result);
  return exit_code(outcome.result.diagnostics);
}

}  // namespace tessera::cli
