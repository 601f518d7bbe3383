// `tessera golden make K --out DIR`, `golden check DIR`, `golden bisect DIR`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "cli/colour.hpp"
#include "cli/command_line.hpp"
#include "cli/golden_command.hpp"
#include "cli/module_commands.hpp"
#include "cli/progress.hpp"
#include "golden/bisect.hpp"
#include "golden/golden.hpp"
#include "golden/verdict.hpp"

namespace tessera::cli {

ErrorModel model_of(const GoldenArguments& g) {
  ErrorModel model;
  model.accumulate = unit_roundoff(g.accumulate);
  if (g.operands != "as given") model.operands = unit_roundoff(g.operands);
  model.fused = !g.not_fused;
  model.other_blocks = g.other_blocks;
  for (const auto& [op, text] : split_assignments(g.ulps, "--ulp"))
    model.set_ulp(op, parse_number("--ulp " + op, text, true));
  return model;
}

ErrorModel model_of_kernel(const GoldenArguments& g) {
  ErrorModel model = model_of(g);
  if (model.accumulate == 0)
    throw InputError("bad-input", "--accumulate real is for modules: a kernel of C++ has an oracle",
                     "tessera run compares with it");
  return model;
}

void lift_limits(Request& request) {
  if (!request.device.keeps_blocks_across_cells())
    request.device.vmem_bytes = std::numeric_limits<std::int64_t>::max();
}

namespace {

constexpr const char* kDeviceFile = "device.json";  // in a golden whose device was given as a file

int failed(const std::vector<Diagnostic>& diagnostics) {
  for (const auto& d : diagnostics) say(d);
  return exit_code(diagnostics);
}

}  // namespace

golden::Golden make_golden(const KernelHandle& kernel, Request request, const std::string& command,
                           std::vector<Diagnostic>& diagnostics) {
  request.backend = BackendKind::interpret;
  request.keep_inputs = true;
  request.options.keep_checksums = true;
  Outcome outcome;
  {
    Progress progress(kernel.info.name);
    request.options.progress = [&](double done) { progress.show(done); };
    request.phase = [&](const char* what) { progress.phase(what); };
    outcome = kernel.run(request);
  }
  golden::Golden made;
  diagnostics = outcome.result.diagnostics;
  if (!outcome.result.ok()) return made;
  made.kernel = kernel.info.name;
  for (const auto& s : outcome.setting.sizes) made.sizes.emplace_back(s.name, s.value);
  made.tiles = outcome.setting.tiles;
  made.dtype = name(request.dtype);
  made.device = request.device.name;
  if (request.device.origin.ends_with(".json"))
    made.files.push_back({kDeviceFile, request.device.json});
  made.devices = request.devices;
  made.seed = request.seed;
  made.inputs_kind = name(request.input_kind);
  made.profile = name(request.options.profile);
  made.command = command;
  made.error_model = *request.options.error_model;
  for (auto& [name, array] : outcome.inputs) made.inputs.push_back({name, std::move(array)});
  golden::take_result(made, std::move(outcome.result), outcome.output_names);
  return made;
}

int golden_make_command(const Kernels& kernels, const RunArguments& a, const GoldenArguments& g) {
  std::vector<Diagnostic> diagnostics;
  golden::Golden made;
  if (is_module(a.kernel)) {
    made =
        module_commands().make_golden(a, model_of(g), command_of("golden make", a, g), diagnostics);
  } else {
    const KernelHandle& kernel = kernels.find(a.kernel);
    Request request = request_of(kernel, a);
    request.options.error_model = model_of_kernel(g);
    lift_limits(request);
    made = make_golden(kernel, request, command_of("golden make", a, g), diagnostics);
  }
  if (!diagnostics.empty()) return failed(diagnostics);
  std::error_code error;
  const bool replaced = std::filesystem::exists(g.folder + "/manifest.json", error);
  golden::write(g.folder, made);
  fmt::print("{}: {}{}\n", g.folder, golden::describe(made),
             replaced ? "; the golden that was there is replaced" : "");
  for (const golden::Output& o : made.outputs) {
    std::int64_t zero = 0;
    std::int64_t unbounded = 0;
    double largest = 0;
    double square = 0;
    double numbers = 0;
    for (std::int64_t i = 0; i < o.values.elems(); ++i) {
      const double bound = o.bounds.data<float>()[i];
      const double value = o.values.at(i);
      zero += bound == 0 ? 1 : 0;
      unbounded += std::isinf(bound) ? 1 : 0;
      if (!std::isinf(bound)) largest = std::max(largest, bound);
      if (!std::isfinite(value)) continue;
      square += value * value;
      numbers += 1;
    }
    fmt::print("  {:<10} {}, about {:.2g}; bounds up to {:.2g}, {} of {} must be bit-exact", o.name,
               tessera::describe(o.values.dtype(), o.values.shape()),
               numbers > 0 ? std::sqrt(square / numbers) : 0., largest, with_commas(zero),
               with_commas(o.values.elems()));
    if (unbounded > 0) fmt::print("; {} have no bound", with_commas(unbounded));
    fmt::print("\n");
  }
  fmt::print(
      "  steps      {} checksums\nhold a build to it: tessera golden check {} --outputs DIR\n",
      with_commas(made.steps.rows.shape()[0]), g.folder);
  return 0;
}

namespace {

/// The other side of a golden: its kernel, run again.
struct Again {
  RunResult result;
  Receipt receipt;
};

/// A kernel on the inputs of a golden, with its sizes and tiles.
Again run_again(const Kernels& kernels, const RunArguments& a, const golden::Golden& made,
                const GoldenArguments& g, bool keep_checksums) {
  if (made.frontend != "cpp") {
    if (const auto backend = parse_backend(g.backend); backend != BackendKind::interpret) {
      const bool mosaic = made.frontend == "mosaic";
      throw InputError("no-backend",
                       "--backend " + g.backend + ": a " +
                           (mosaic ? "Mosaic module" : "Triton launch") +
                           " runs in the interpreter alone",
                       std::string("take --outputs DIR, what a ") + (mosaic ? "TPU" : "GPU") +
                           " made of inputs/*.npy");
    }
    return {module_commands().run_again(a, made, g.folder, keep_checksums), {}};
  }
  RunArguments run = a;
  run.backend = g.backend;
  run.kernel = made.kernel;
  run.dtype = made.dtype;
  const std::string own_device = g.folder + "/" + kDeviceFile;
  run.device = std::filesystem::exists(own_device) ? own_device : made.device;
  run.profile = made.profile;
  if (made.devices > 0) run.mesh = std::to_string(made.devices);
  for (const auto& [name, value] : made.sizes)
    run.assignments.push_back(fmt::format("{}={}", name, value));
  for (const auto& [name, extent] : made.tiles)
    run.assignments.push_back(fmt::format("{}={}", name, extent));
  for (const auto& in : made.inputs)
    run.inputs.push_back(in.name + "=" + g.folder + "/inputs/" + in.name + ".npy");
  const KernelHandle& kernel = kernels.find(made.kernel);
  Request request = request_of(kernel, run);
  request.check = false;
  lift_limits(request);
  if (request.backend == BackendKind::cuda) request.options.profile = Profile::exact;
  request.options.keep_checksums = keep_checksums;
  if (keep_checksums) request.steps_per_cell = golden::steps_per_cell(made.steps);
  Outcome outcome = kernel.run(request);
  fmt::print("{} on {}\n", name(outcome.receipt.ran),
             outcome.receipt.why.empty() ? made.device : outcome.receipt.why);
  return {std::move(outcome.result), std::move(outcome.receipt)};
}

void need_other_side(const GoldenArguments& g, const char* command) {
  if (g.outputs.empty() != g.backend.empty()) return;
  throw InputError("bad-usage",
                   fmt::format("golden {} takes --outputs DIR or --backend cuda", command),
                   fmt::format("tessera golden {} --help", command));
}

}  // namespace

int golden_check_command(const Kernels& kernels, const RunArguments& a, const GoldenArguments& g) {
  need_other_side(g, "check");
  const golden::Golden made = golden::read(g.folder);
  std::vector<Array> theirs;
  if (!g.outputs.empty()) {
    theirs = golden::read_outputs(made, g.outputs);
  } else {
    Again outcome = run_again(kernels, a, made, g, false);
    if (!outcome.result.ok()) return failed(outcome.result.diagnostics);
    theirs = std::move(outcome.result.outputs);
  }
  std::vector<golden::Verdict> verdicts;
  for (std::size_t i = 0; i < theirs.size(); ++i)
    verdicts.push_back(golden::judge(made, i, theirs[i]));
  fmt::print("{}", golden::text_of(made, verdicts));
  std::fflush(stdout);
  int code = 0;
  for (const auto& v : verdicts) {
    if (!v.mismatch) continue;
    say(*v.mismatch);
    code = 1;
  }
  return code;
}

int golden_bisect_command(const Kernels& kernels, const RunArguments& a, const GoldenArguments& g) {
  need_other_side(g, "bisect");
  const golden::Golden made = golden::read(g.folder);
  if (made.frontend == "triton")
    throw InputError("bad-input", "a golden of a Triton launch has no checksums of its programs",
                     "tessera golden check says which elements differ");
  Array theirs = golden::rows_of(made.steps, {});
  if (!g.outputs.empty()) {
    theirs = golden::read_steps(made.steps, g.outputs);
    if (std::filesystem::is_directory(g.outputs) && theirs.shape()[0] == 0)
      theirs = golden::with_outputs(made, theirs, golden::read_outputs(made, g.outputs));
  } else {
    const Again outcome = run_again(kernels, a, made, g, true);
    if (!outcome.result.ok()) return failed(outcome.result.diagnostics);
    const cuda::Launched& launch = outcome.receipt.launch;
    StepChecksums sums = outcome.result.checksums;
    for (const cuda::StepSum& s : launch.checksums) {
      StepChecksum& sum = sums.emplace_back();
      sum.device = s.device;
      std::copy(s.ids.begin(), s.ids.end(), sum.ids.begin());
      sum.operand = s.operand;
      sum.checksum = s.checksum;
    }
    theirs = golden::rows_of(made.steps, sums);
    if (outcome.receipt.ran == BackendKind::cuda) {
      theirs = golden::with_outputs(made, theirs, outcome.result.outputs);
      if (!launch.keeps_checksums) {
        fmt::print(
            "built without -DTESSERA_CUDA_CHECKSUMS=ON: of its blocks the outputs alone are "
            "known\n");
      }
    }
  }
  const golden::Parting parting = golden::bisect(made.steps, theirs);
  if (parting.compared == 0) {
    throw InputError("bad-input", "the other side has none of the golden's " +
                                      with_commas(parting.missing) + " checksums");
  }
  fmt::print("golden {}\n  {} checksums compared", golden::describe(made),
             with_commas(parting.compared));
  if (parting.missing > 0)
    fmt::print(", {} that the other side did not record", with_commas(parting.missing));
  if (parting.differ == 0) {
    fmt::print("\nall agree\n");
    return 0;
  }
  fmt::print(", {} differ\nfirst at grid step {}: {}{}\n", with_commas(parting.differ),
             parting.step, parting.ref,
             parting.block >= 0 ? fmt::format(", block {} of the array, as it was written back",
                                              with_commas(parting.block))
                                : ", after the step's body");
  return 1;
}

}  // namespace tessera::cli
