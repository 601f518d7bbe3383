#include "cli/triton_command.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cli/colour.hpp"
#include "cli/command_line.hpp"
#include "cli/device_profile.hpp"
#include "cli/progress.hpp"
#include "memory_model/npy.hpp"
#include "program/print.hpp"
#include "triton/case_directory.hpp"

namespace tessera::cli {

namespace {

/// What another build may be off by, of the largest element of a storage: sums are in no stated
/// order, and GPUs approximate what is correctly rounded here. Of sums that cancel: of the largest
/// element of any storage.
constexpr double kTolerance = 1e-2;
constexpr double kOfAny = 1e-6;

double largest_of(const Array& a) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.elems(); ++i) {
    if (std::isfinite(a.at(i))) largest = std::max(largest, std::fabs(a.at(i)));
  }
  return largest;
}

struct Agreement {
  bool passed = true;
  std::string text;
};

Agreement compare(const triton::Case& c) {
  Agreement a;
  double of_any = 0;
  for (const triton::LaunchStorage& s : c.launch.storages) {
    if (is_float(s.data.dtype())) of_any = std::max(of_any, largest_of(s.data));
  }
  for (std::size_t k = 0; k < c.expected.size(); ++k) {
    if (!c.expected[k]) continue;
    const Array& wanted = *c.expected[k];
    const Array& got = c.launch.storages[k].data;
    const std::string& name = c.launch.storages[k].name;
    if (!a.text.empty()) a.text += "; ";
    if (wanted.shape() != got.shape()) {
      a.passed = false;
      a.text += name + ": has another shape than what was recorded";
      continue;
    }
    const double largest = largest_of(wanted);
    double worst = 0;
    std::int64_t first_bad = -1;
    for (std::int64_t i = 0; i < wanted.elems(); ++i) {
      const double g = got.at(i);
      const double w = wanted.at(i);
      if (g == w || (std::isnan(g) && std::isnan(w))) continue;
      const double off = std::fabs(g - w);
      worst = std::max(worst, off);
      if (!(off <= std::max(kTolerance * largest, kOfAny * of_any)) && first_bad < 0) first_bad = i;
    }
    a.text +=
        fmt::format("{}: off by at most {:.3g} from what was recorded, whose largest is {:.3g}",
                    name, worst, largest);
    if (first_bad >= 0) {
      a.passed = false;
      a.text += fmt::format(", beyond {:g} of that at element {}", kTolerance, first_bad);
    }
  }
  return a;
}

DeviceSpec device_of(const RunArguments& a, const triton::Case& c) {
  return find_device(a.device_given || c.device.empty() ? a.device : c.device);
}

void refuse_what_a_launch_has_not(const RunArguments& a) {
  const std::pair<bool, const char*> none[] = {{!a.mesh.empty(), "--mesh"},
                                               {a.cores != 1, "--cores"},
                                               {!a.schedule.empty(), "--schedule"},
                                               {!a.at.empty(), "--at"},
                                               {a.break_at, "--break"},
                                               {a.no_races, "--no-races"},
                                               {!a.trace.empty(), "--trace"},
                                               {!a.report.empty(), "--report"},
                                               {a.timeline, "--timeline"},
                                               {!a.record.empty(), "--record"},
                                               {!a.inputs.empty(), "--input"}};
  for (const auto& [given, option] : none) {
    if (given)
      throw InputError("bad-usage", std::string(option) + " is not built for Triton launches yet");
  }
  if (!a.assignments.empty())
    throw InputError("bad-input",
                     "a recorded launch has no parameters; its arguments are in meta.json");
  const auto backend = parse_backend(a.backend);
  if (backend && *backend != BackendKind::interpret)
    throw InputError("no-backend", "--backend " + a.backend +
                                       ": a Triton launch runs in the interpreter alone "
                                       "(--backend interpret, or auto)");
}

/// A recorded launch; its storages are the outputs of a run.
class LoadedLaunch final : public LoadedModule {
 public:
  explicit LoadedLaunch(const RunArguments& a)
      : case_(triton::read_case(a.kernel, run_options(a).profile)) {
    refuse_what_a_launch_has_not(a);
  }

  const std::string& name() const override { return case_.kernel->program.name; }
  const char* frontend() const override { return "triton"; }
  DType dtype() const override { return case_.main_dtype; }
  RunOptions options(const RunArguments& a) const override {
    RunOptions options = run_options(a);
    options.device = device_of(a, case_);
    options.mesh = {1};
    options.who = name();
    return options;
  }
  RunResult run(const RunOptions& options) const override {
    triton::Launch launch = case_.launch;
    RunResult result = triton::run_launch(launch, options).run;
    result.plan.device = options.device;
    for (triton::LaunchStorage& s : launch.storages) result.outputs.push_back(std::move(s.data));
    return result;
  }

 private:
  triton::Case case_;
};

}  // namespace

std::unique_ptr<LoadedModule> load_triton_launch(const RunArguments& a) {
  return std::make_unique<LoadedLaunch>(a);
}

bool is_triton_launch(const std::string& kernel) { return triton::is_case(kernel); }

int run_triton_command(const RunArguments& a) {
  refuse_what_a_launch_has_not(a);
  check_destinations(a);
  RunArguments of_profile = a;
  if (a.profile == "device") {
    const DeviceSpec device = device_of(a, triton::read_case(a.kernel));
    of_profile.profile = name(profile_of(a.profile, device));
  }
  RunOptions options = run_options(of_profile);
  triton::Case c = triton::read_case(a.kernel, options.profile);
  options.device = device_of(a, c);
  options.mesh = {1};
  options.who = c.kernel->program.name;
  options.trap_nan = a.trap == "nan";
  if (!a.trap.empty() && !options.trap_nan)
    throw InputError("bad-input", "--trap knows nan, not '" + a.trap + "'");
  triton::LaunchResult launched;
  {
    Progress progress(c.kernel->program.name);
    options.progress = [&](double done) { progress.show(done); };
    launched = triton::run_launch(c.launch, options);
  }
  RunResult& result = launched.run;
  result.plan.device = options.device;
  report::RunReport report = report::report_of(result, options);
  report.kernel = c.kernel->program.name;
  report.frontend = "triton";
  report.dtype = c.main_dtype;
  report.backend_why = "a Triton launch runs in the interpreter";
  for (const triton::LineTraffic& l : launched.lines) {
    report.lines.push_back(
        {l.line.file, l.line.line, l.line.column, c.launch.storages[l.storage].name,
         l.requested.times, l.requested.read_bytes, l.requested.written_bytes,
         l.requested.sectors.requests, l.requested.sectors.sectors, l.requested.sectors.of_l2});
  }
  report.validated = "no: nothing to compare with";
  if (result.ok() && !a.no_check && !a.dry) {
    const Agreement agreement = compare(c);
    if (!agreement.text.empty()) report.validated = agreement.text;
    if (!agreement.passed) {
      result.diagnostics.push_back(
          {.slug = "mismatch",
           .headline = "the results are not those that were recorded",
           .fields = {{"kernel", c.kernel->program.name}, {"results", agreement.text}}});
    }
  }
  report.diagnostics = result.diagnostics;
  if (result.ok()) fmt::print("{}", coloured_report(stdout, report::text_of(report)));
  std::fflush(stdout);
  for (const auto& d : result.diagnostics) say(d);
  if (!a.output.empty() && result.complete && !a.dry) {
    for (std::size_t k = 0; k < c.launch.storages.size(); ++k) {
      if (launched.written[k])
        write_npy(fmt::format("{}/out{}.npy", a.output, k), c.launch.storages[k].data);
    }
  }
  write_reports(a, report, result);
  return exit_code(result.diagnostics);
}

int show_triton_command(const RunArguments& a) {
  const triton::Case c = triton::read_case(a.kernel);
  const triton::Kernel& k = *c.kernel;
  if (a.steps) {
    fmt::print("{}", program::print(k.program));
    return 0;
  }
  fmt::print("{}  (Triton)\n\n", k.program.name);
  fmt::print("grid        {} x {} x {}\n\n", c.launch.grid[0], c.launch.grid[1], c.launch.grid[2]);
  fmt::print("  {:<24} {:<18} {}\n", "argument", "type", "points to");
  for (std::size_t i = 0; i < k.parameters.size(); ++i) {
    const triton::Argument& given = c.launch.arguments[i];
    std::string target = k.parameters[i].type.pointer ? "nothing" : "";
    if (given.storage >= 0) {
      const triton::LaunchStorage& s = c.launch.storages[static_cast<std::size_t>(given.storage)];
      target =
          fmt::format("storage {}, {}{}", given.storage, describe(s.data.dtype(), s.data.shape()),
                      given.offset != 0 ? fmt::format(" from element {}", given.offset) : "");
    }
    fmt::print("  {:<24} {:<18} {}\n", k.parameters[i].name, k.parameters[i].type.text, target);
  }
  fmt::print("\n{} ops, {} accesses to memory\n", k.program.operations, k.sites.size());
  fmt::print("{}", functions_line(device_of(a, c)));
  return 0;
}

}  // namespace tessera::cli
