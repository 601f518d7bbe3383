// `tessera replay FOLDER`: what was recorded, run again; what is otherwise, and whether it may be.
//
// Outputs must have the recorded bits where both runs compute alike: by the same profile, and in
// f32 on whatever backend. Otherwise each has to lie within the error bound of any conforming build
// (sim/bounds), about what the interpreter computes exactly. Bytes must be equal on the same device
// and backend. Predicted times are told.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/golden_command.hpp"
#include "cli/module_commands.hpp"
#include "cli/progress.hpp"
#include "cli/recorded.hpp"
#include "golden/validate.hpp"
#include "golden/verdict.hpp"
#include "memory_model/file.hpp"
#include "memory_model/npy.hpp"

namespace tessera::cli {

namespace {

using record::Noted;
using record::Record;

/// A recorded invocation, run again.
struct Again {
  RunArguments arguments;
  Record now;
  std::vector<Array> outputs;  ///< as now.outputs
};

/// How one is to be run here.
RunArguments arguments_of(const record::Folder& folder, const Record& before, const RunArguments& a,
                          const ReplayArguments& replay) {
  RunArguments again = run_arguments(before.arguments);
  const auto in_folder = [&](const std::string& file) { return folder.path() + "/" + file; };
  if (before.frontend != "cpp") again.kernel = in_folder(again.kernel);
  if (again.device.ends_with(".json")) again.device = in_folder(again.device);
  for (std::string& input : again.inputs) {
    const std::size_t file = input.find('=') + 1;
    input = input.substr(0, file) + in_folder(input.substr(file));
  }
  again.backend = replay.other_backend ? a.backend : before.ran;
  if (replay.other_profile) again.profile = a.profile;
  if (a.device_given) {
    again.device = a.device;
    again.device_given = true;
  }
  again.threads = a.threads;
  again.time_limit = a.time_limit;
  again.oversubscribe = again.oversubscribe || a.oversubscribe;
  const bool was_compared =
      std::ranges::find(before.diagnostics, "mismatch") != before.diagnostics.end();
  again.no_check = !was_compared;
  return again;
}

Again run_kernel(const Kernels& kernels, const record::Folder& folder, RunArguments a) {
  const KernelHandle& kernel = kernels.find(a.kernel);
  Request request = request_of(kernel, a);
  request.keep_inputs = true;
  Outcome outcome;
  {
    Progress progress(kernel.info.name);
    request.options.progress = [&](double done) { progress.show(done); };
    outcome = kernel.run(request);
  }
  report::RunReport report = report_of(kernel, request, outcome);
  report::add_timeline(report, outcome.result, 0);
  Again again{std::move(a), record_of(folder, kernel, request, outcome, report, false), {}};
  if (!again.now.outputs.empty()) again.outputs = std::move(outcome.result.outputs);
  return again;
}

Again run_module(const record::Folder& folder, RunArguments a) {
  const auto backend = parse_backend(a.backend);
  if (backend && *backend != BackendKind::interpret)
    throw InputError("no-backend", "a module runs in the interpreter alone");
  const std::unique_ptr<LoadedModule> module = module_commands().load(a);
  RunOptions options = module->options(a);
  RunResult result;
  {
    Progress progress(module->name());
    options.progress = [&](double done) { progress.show(done); };
    result = module->run(options);
  }
  report::RunReport report = report::report_of(result, options);
  report.kernel = module->name();
  report.frontend = module->frontend();
  report.dtype = module->dtype();
  report::add_timeline(report, result, 0);
  Again again{std::move(a), record::record_of(report::json_of(report)), {}};
  for (std::size_t j = 0; result.ok() && j < result.outputs.size(); ++j)
    again.now.outputs.push_back(folder.note("out" + std::to_string(j), result.outputs[j], false));
  if (result.ok()) again.outputs = std::move(result.outputs);
  return again;
}

/// What an array of this name was, or null.
const Noted* named_in(const std::vector<Noted>& arrays, const std::string& name) {
  const auto found = std::ranges::find(arrays, name, &Noted::name);
  return found == arrays.end() ? nullptr : &*found;
}

/// Of a C++ kernel, whose inputs are made again; "" if they are those that were recorded.
std::string other_inputs(const Record& before, const Again& again) {
  std::string names;
  for (const Noted& input : again.now.inputs) {
    const Noted* const was = named_in(before.inputs, input.name);
    if (was != nullptr && was->sha256 == input.sha256) continue;
    names += (names.empty() ? "" : ", ") + input.name;
  }
  return names;
}

bool compute_alike(const Record& before, const Record& now) {
  if (before.numerics != now.numerics) return false;
  if (before.ran == now.ran) return true;
  const bool oracle = before.ran == "reference" || now.ran == "reference";
  return !oracle && before.key.dtype == name(DType::f32);
}

/// What the interpreter computes exactly, with the bounds of any build that conforms. Empty: why.
golden::Golden bounds_of(const Kernels& kernels, RunArguments a, const Record& before,
                         const Record& now, std::string& why) {
  GoldenArguments g;
  for (const Record* each : {&before, &now})
    if (each->numerics.starts_with("mxu")) g.operands = "bf16";
  a.profile = name(Profile::exact);
  a.backend = name(BackendKind::interpret);
  std::vector<Diagnostic> diagnostics;
  golden::Golden made;
  if (before.frontend == "cpp") {
    const KernelHandle& kernel = kernels.find(a.kernel);
    Request request = request_of(kernel, a);
    request.options.error_model = model_of(g);
    lift_limits(request);
    made = make_golden(kernel, request, "", diagnostics);
  } else {
    try {
      made = module_commands().make_golden(a, model_of(g), "", diagnostics);
    } catch (const InputError& error) {  // of a Triton launch
      why = error.what();
    }
  }
  if (!diagnostics.empty()) why = diagnostics.front().headline;
  return made;
}

std::string value_of(const Array& a, std::int64_t i) {
  return fmt::format("{:.9g} (0x{:x})", a.at(i), a.bits(i));
}

/// The element that is farthest off; "" if NaNs alone differ.
std::string worst_of(const Noted& noted, const Array& before, const Array& now) {
  std::int64_t differ = 0;
  std::int64_t worst = -1;
  std::int64_t most = -1;
  for (std::int64_t i = 0; i < now.elems(); ++i) {
    if (before.bits(i) == now.bits(i) || (std::isnan(before.at(i)) && std::isnan(now.at(i))))
      continue;
    ++differ;
    const std::int64_t ulp = golden::ulp_distance(before, now, i);
    if (ulp <= most) continue;
    most = ulp;
    worst = i;
  }
  if (differ == 0) return "";
  return fmt::format("{} of {} elements of {}, worst {}{} = {}, recorded {}", with_commas(differ),
                     with_commas(now.elems()), noted.name, noted.name,
                     to_string(unravel(now.shape(), worst)), value_of(now, worst),
                     value_of(before, worst));
}

enum class Verdict : std::uint8_t { same, within, different, not_run, no_kernel };

struct Said {
  Verdict verdict = Verdict::same;
  std::string text = {};
  std::vector<std::string> details = {};
};

Said different(const std::string& what) { return {Verdict::different, "different: " + what}; }

/// Outputs that differ where the two do not compute alike.
Said judged(const Kernels& kernels, const record::Folder& folder, const Record& before,
            const Again& again) {
  std::string why;
  const golden::Golden exact = bounds_of(kernels, again.arguments, before, again.now, why);
  if (!why.empty() || exact.outputs.size() != again.outputs.size())
    return different("other bits, and no bounds to judge them by: " + why);
  Said said{Verdict::within, "within the bound"};
  double most = 0;
  for (std::size_t i = 0; i < again.outputs.size(); ++i) {
    const Noted& noted = again.now.outputs[i];
    const std::pair<const char*, Array> sides[] = {
        {"recorded", folder.array(*named_in(before.outputs, noted.name))},
        {"now", again.outputs[i]}};
    for (const auto& [when, values] : sides) {
      const golden::Verdict verdict = golden::judge(exact, i, values);
      most = std::max(most, verdict.worst_of_bound);
      if (verdict.wrong == 0) continue;
      said.verdict = Verdict::different;
      said.text = "different: beyond the bound";
      for (const auto& [field, text] : verdict.mismatch->fields)
        if (field == "worst") said.details.push_back(fmt::format("{}: {}", when, text));
    }
  }
  if (said.verdict == Verdict::within)
    said.text += fmt::format(", at most {:.2g} % of it", 100 * most);
  return said;
}

Said outputs_of(const Kernels& kernels, const record::Folder& folder, const Record& before,
                const Again& again) {
  const auto slugs = [](const Record& r) {
    return r.diagnostics.empty() ? std::string("nothing wrong")
                                 : fmt::format("{}", fmt::join(r.diagnostics, ", "));
  };
  if (before.diagnostics != again.now.diagnostics)
    return different(slugs(again.now) + ", recorded with " + slugs(before));
  if (const std::string names = other_inputs(before, again); !names.empty())
    return different("inputs are not those that were recorded: " + names);
  if (before.dry || again.now.dry) return {Verdict::same, "counted alone"};
  Said said{Verdict::same, before.diagnostics.empty() ? "same bits" : "the same " + slugs(before)};
  if (before.outputs.size() != again.now.outputs.size())
    return different(
        fmt::format("{} outputs, recorded {}", again.now.outputs.size(), before.outputs.size()));
  for (std::size_t i = 0; i < again.now.outputs.size(); ++i) {
    const Noted& now = again.now.outputs[i];
    const Noted* const was = named_in(before.outputs, now.name);
    if (was == nullptr || !(was->shape == now.shape) || was->dtype != now.dtype)
      return different(now.text() + ", recorded " + (was ? was->text() : "without it"));
    if (was->sha256 == now.sha256) continue;
    if (!compute_alike(before, again.now)) return judged(kernels, folder, before, again);
    std::string worst = worst_of(now, folder.array(*was), again.outputs[i]);
    if (worst.empty()) {
      if (said.details.empty()) said.text = "same bits but for those of NaNs";
      continue;
    }
    said.verdict = Verdict::different;
    said.text = "different bits";
    said.details.push_back(std::move(worst));
  }
  return said;
}

std::string bytes_of(const Record& before, const Record& now, Said& said) {
  const std::pair<const char*, std::pair<std::int64_t, std::int64_t>> parts[] = {
      {"read", {before.hbm_read_bytes, now.hbm_read_bytes}},
      {"written", {before.hbm_write_bytes, now.hbm_write_bytes}},
      {"remote", {before.remote_bytes, now.remote_bytes}}};
  std::string text;
  for (const auto& [what, bytes] : parts) {
    if (bytes.first == bytes.second) continue;
    text += fmt::format("{}{} bytes {}, recorded {}", text.empty() ? "" : ", ",
                        with_commas(bytes.second), what, with_commas(bytes.first));
  }
  if (text.empty()) return "bytes equal";
  if (before.device == now.device && before.ran == now.ran) said.verdict = Verdict::different;
  return text;
}

std::string times_of(const Record& before, const Record& now) {
  const auto text = [](const Record& r) {
    return r.predicted_seconds > 0 ? report::duration(r.predicted_seconds) : std::string("no time");
  };
  constexpr double kRounding = 1e-9;  // times are sums
  if (std::abs(before.predicted_seconds - now.predicted_seconds) <=
      kRounding * now.predicted_seconds)
    return "predicted " + text(now);
  return "predicted " + text(now) + ", recorded " + text(before);
}

std::string where(const std::string& backend, const std::string& device,
                  const std::string& numerics) {
  return backend + " on " + device + (numerics == name(Profile::exact) ? "" : " as " + numerics);
}

Said replay_one(const Kernels& kernels, const record::Folder& folder, const Record& before,
                const RunArguments& a, const ReplayArguments& replay, std::string& ran) {
  ran = where(before.ran, before.device, before.numerics);
  if (before.frontend == "python")
    return {Verdict::no_kernel, "a function of Python, whose kernels have lines of their own"};
  if (before.arguments.empty())
    throw InputError("bad-record", "what it takes to run it again was not kept");
  RunArguments again = arguments_of(folder, before, a, replay);
  if (before.frontend != "cpp")  // whose inputs are not made, but read
    for (const Noted& input : before.inputs) static_cast<void>(folder.array(input));
  const Again run = before.frontend == "cpp" ? run_kernel(kernels, folder, std::move(again))
                                             : run_module(folder, std::move(again));
  const std::string now = where(run.now.ran, run.now.device, run.now.numerics);
  if (now != ran) ran += ", now " + now;
  Said said = outputs_of(kernels, folder, before, run);
  said.text += "; " + bytes_of(before, run.now, said) + "; " + times_of(before, run.now);
  return said;
}

}  // namespace

int replay_command(const Kernels& kernels, const RunArguments& a, const ReplayArguments& replay) {
  const auto folder = record::Folder::existing(replay.folder);
  const record::Folder::Read read = folder.read();
  const auto count = static_cast<int>(read.records.size());
  if (replay.only >= count)
    throw InputError("bad-input", fmt::format("--only {}: {} has {} invocations, counted from 0",
                                              replay.only, replay.folder, count));
  int of[5] = {};
  for (int n = std::max(0, replay.only); n < (replay.only < 0 ? count : replay.only + 1); ++n) {
    const Record& before = read.records[static_cast<std::size_t>(n)];
    Said said;
    std::string ran;
    try {
      said = replay_one(kernels, folder, before, a, replay, ran);
    } catch (const InputError& error) {
      said = {Verdict::not_run, "not replayed: " + std::string(error.what())};
    } catch (const NpyError& error) {
      said = {Verdict::not_run, "not replayed: " + std::string(error.what())};
    } catch (const KernelError& error) {
      said = different(error.diagnostic.headline);
    }
    ++of[static_cast<int>(said.verdict)];
    const auto show = [](const std::string& text) { fmt::print("{}", printable(text)); };
    show(fmt::format("{:>4}  {} {} {}  {}\n      {}\n", n, before.operation, before.key.dtype,
                     before.key.sizes, ran, said.text));
    for (const std::string& detail : said.details) show(fmt::format("      {}\n", detail));
    std::fflush(stdout);
  }
  const char* const names[] = {"the same", "within the bound", "different", "not replayed"};
  std::string sum;
  for (std::size_t i = 0; i < std::size(names); ++i)
    if (of[i] > 0) sum += fmt::format("{}{} {}", sum.empty() ? "" : ", ", of[i], names[i]);
  fmt::print("{}\n", sum.empty() ? "nothing was recorded" : sum);
  if (read.torn > 0)
    fmt::print("{} line{} cut off: whoever wrote was killed\n", read.torn,
               read.torn == 1 ? " is" : "s are");
  constexpr int kUnsupported = 3;
  if (of[static_cast<int>(Verdict::different)] > 0) return 1;
  return of[static_cast<int>(Verdict::not_run)] > 0 ? kUnsupported : 0;
}

}  // namespace tessera::cli
