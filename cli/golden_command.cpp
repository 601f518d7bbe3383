// `tessera golden make K --out DIR`, `golden check DIR`, `golden bisect DIR`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/commands.hpp"
#include "cli/progress.hpp"
#include "golden/bisect.hpp"
#include "golden/golden.hpp"
#include "golden/verdict.hpp"

namespace tessera::cli {

namespace {

ErrorModel model_of(const GoldenArguments& g) {
  ErrorModel model;
  model.accumulate = unit_roundoff(g.accumulate);
  if (g.operands != "as given") model.operands = unit_roundoff(g.operands);
  model.fused = !g.not_fused;
  for (const auto& [op, text] : split_assignments(g.ulps, "--ulp")) {
    const double ulp = parse_number("--ulp " + op, text, true);
    std::vector<std::string> known{"div", "sqrt"};
    for (const auto& [name, value] : ErrorModel::cuda_function_ulp()) known.push_back(name);
    if (std::find(known.begin(), known.end(), op) == known.end())
      throw InputError("bad-input", "--ulp: no function '" + op + "'" + suggest(op, known));
    if (ulp < 0.5)
      throw InputError("bad-input", "--ulp " + op + " is at least 0.5: correctly rounded");
    std::erase_if(model.function_ulp, [&op = op](const auto& entry) { return entry.first == op; });
    model.function_ulp.emplace_back(op, ulp);
  }
  return model;
}

std::string make_command(const RunArguments& a, const GoldenArguments& g) {
  std::string command = "tessera golden make " + a.kernel;
  for (const auto& word : a.assignments) command += " " + word;
  const auto add = [&](const std::string& value, const char* usual, const char* option) {
    if (value != usual) command += std::string(" ") + option + " " + value;
  };
  add(std::to_string(a.case_index), "0", "--case");
  add(a.dtype, "f32", "--dtype");
  add(a.device, "tpu-v5e", "--device");
  add(std::to_string(a.seed), "0", "--seed");
  add(a.input_kind, "uniform", "--inputs");
  add(a.profile, "exact", "--profile");
  add(a.mesh, "", "--devices");
  add(g.accumulate, "f32", "--accumulate");
  if (g.operands != "as given") command += " --operands " + g.operands;
  for (const auto& word : g.ulps) command += " --ulp " + word;
  for (const auto& word : a.inputs) command += " --input " + word;
  return command + (g.not_fused ? " --no-fused" : "");
}

int failed(const std::vector<Diagnostic>& diagnostics) {
  for (const auto& d : diagnostics) fmt::print(stderr, "{}", d.text());
  return exit_code(diagnostics);
}

}  // namespace

int golden_make_command(const Kernels& kernels, const RunArguments& a, const GoldenArguments& g) {
  if (is_module(a.kernel)) {
    throw InputError("bad-input",
                     "goldens of Mosaic modules are not supported yet: their ops have no error "
                     "bounds");
  }
  const KernelHandle& kernel = find_kernel(kernels, a.kernel);
  Request request = request_of(kernel, a);
  request.backend = BackendKind::interpret;
  request.keep_inputs = true;
  request.options.error_model = model_of(g);
  request.options.keep_checksums = true;
  Outcome outcome;
  {
    Progress progress(kernel.info.name);
    request.options.progress = [&](double done) { progress.show(done); };
    request.phase = [&](const char* what) { progress.phase(what); };
    outcome = kernel.run(request);
  }
  if (!outcome.result.ok()) return failed(outcome.result.diagnostics);

  golden::Golden made;
  made.kernel = kernel.info.name;
  for (const auto& s : outcome.setting.sizes) made.sizes.emplace_back(s.name, s.value);
  made.tiles = outcome.setting.tiles;
  made.dtype = name(request.dtype);
  made.device = request.device.name;
  made.devices = request.devices;
  made.seed = request.seed;
  made.inputs_kind = name(request.input_kind);
  made.profile = name(request.options.profile);
  made.command = make_command(a, g);
  made.error_model = *request.options.error_model;
  for (auto& [name, array] : outcome.inputs) made.inputs.push_back({name, std::move(array)});
  golden::take_result(made, std::move(outcome.result), outcome.output_names);
  golden::write(g.folder, made);
  fmt::print("{}: {}\n", g.folder, golden::describe(made));
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

int golden_check_command(const Kernels& kernels, const RunArguments& a, const GoldenArguments& g) {
  if (g.outputs.empty() == (a.backend == "auto")) {
    throw InputError("bad-usage", "golden check takes --outputs DIR or --backend cuda",
                     "tessera golden check --help");
  }
  const golden::Golden made = golden::read(g.folder);
  std::vector<Array> theirs;
  if (!g.outputs.empty()) {
    theirs = golden::read_outputs(made, g.outputs);
  } else {
    RunArguments run = a;
    run.kernel = made.kernel;
    run.dtype = made.dtype;
    run.device = made.device;
    run.profile = made.profile;
    if (made.devices > 0) run.mesh = std::to_string(made.devices);
    for (const auto& [name, value] : made.sizes)
      run.assignments.push_back(fmt::format("{}={}", name, value));
    for (const auto& [name, extent] : made.tiles)
      run.assignments.push_back(fmt::format("{}={}", name, extent));
    for (const auto& in : made.inputs)
      run.inputs.push_back(in.name + "=" + g.folder + "/inputs/" + in.name + ".npy");
    const KernelHandle& kernel = find_kernel(kernels, made.kernel);
    Request request = request_of(kernel, run);
    request.check = false;
    Outcome outcome = kernel.run(request);
    if (!outcome.result.ok()) return failed(outcome.result.diagnostics);
    fmt::print("{} on {}\n", name(outcome.receipt.ran),
               outcome.receipt.why.empty() ? run.device : outcome.receipt.why);
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
    fmt::print(stderr, "{}", v.mismatch->text());
    code = 1;
  }
  return code;
}

int golden_bisect_command(const GoldenArguments& g) {
  const golden::Golden made = golden::read(g.folder);
  const golden::Parting parting = golden::bisect(made.steps, golden::read_steps(g.outputs));
  if (parting.compared == 0) {
    throw InputError("bad-input", "the other side has none of the golden's " +
                                      with_commas(parting.missing) + " steps");
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
