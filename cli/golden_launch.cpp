// Goldens of Triton launches: `tessera golden make FOLDER`, and running one again.
//
// Inputs are the storages before the launch, with the folder's own files beside them, so that
// `tessera run GOLDEN/inputs` runs it again; outputs are the storages that it wrote, out<k>.
#include <algorithm>
#include <filesystem>

#include "cli/command_line.hpp"
#include "cli/progress.hpp"
#include "cli/triton_command.hpp"
#include "golden/bisect.hpp"
#include "memory_model/file.hpp"
#include "triton/case_directory.hpp"
#include "triton/gpu_functions.hpp"

namespace tessera::cli {

namespace {

triton::LaunchResult run(triton::Case& c, RunOptions& options) {
  Progress progress(c.kernel->program.name);
  options.progress = [&](double done) { progress.show(done); };
  options.mesh = {1};
  options.who = c.kernel->program.name;
  return triton::run_launch(c.launch, options);
}

std::string out(std::size_t storage) { return "out" + std::to_string(storage); }

}  // namespace

golden::Golden make_launch_golden(const RunArguments& a, const ErrorModel& model,
                                  const std::string& command,
                                  std::vector<Diagnostic>& diagnostics) {
  if (!a.assignments.empty())
    throw InputError("bad-input",
                     "a recorded launch has no parameters; its arguments are in meta.json");
  RunOptions options = run_options(a);
  if (options.profile == Profile::gpu_hopper)
    throw InputError("bad-input", "--profile gpu:hopper is one GPU's; a golden is of any: exact");
  triton::Case c = triton::read_case(a.kernel, options.profile, true);
  golden::Golden made;
  made.kernel = c.kernel->program.name;
  made.frontend = "triton";
  made.dtype = name(c.main_dtype);
  made.device = find_device(a.device_given || c.device.empty() ? a.device : c.device).name;
  made.inputs_kind = "given";
  made.profile = name(options.profile);
  made.command = command;
  made.error_model = triton::of_gpu(model);
  for (std::size_t k = 0; k < c.launch.storages.size(); ++k) {
    if (!c.launch.storages[k].undefined)
      made.inputs.push_back({"in" + std::to_string(k), c.launch.storages[k].data});
  }
  constexpr std::size_t kMost = std::size_t{1} << 26;
  for (const char* const file : {"kernel.generic.mlir", "meta.json", "layouts.json"}) {
    const std::string from = a.kernel + "/" + file;
    std::error_code error;
    if (std::filesystem::exists(from, error))
      made.files.push_back({std::string("inputs/") + file, read_file(from, kMost)});
  }
  options.error_model = made.error_model;
  options.device = find_device(made.device);
  triton::LaunchResult result = run(c, options);
  diagnostics = result.run.diagnostics;
  if (!result.run.ok()) return {};
  for (std::size_t k = 0; k < c.launch.storages.size(); ++k) {
    if (!result.written[k]) continue;
    made.outputs.push_back(
        {out(k), std::move(c.launch.storages[k].data), std::move(result.run.bounds[k]), Shape{}});
  }
  made.steps.dims = {"x", "y", "z"};
  made.steps.parallel = 3;
  made.steps.rows = golden::rows_of(made.steps, {});
  return made;
}

RunResult run_launch_again(const RunArguments& a, const golden::Golden& made,
                           const std::string& folder) {
  RunArguments again = a;
  again.profile = made.profile;
  RunOptions options = run_options(again);
  options.device = find_device(made.device);
  triton::Case c = triton::read_case(folder + "/inputs", options.profile);
  RunResult result = run(c, options).run;
  for (std::size_t k = 0; k < c.launch.storages.size(); ++k) {
    const auto named = [&](const golden::Output& o) { return o.name == out(k); };
    if (std::any_of(made.outputs.begin(), made.outputs.end(), named))
      result.outputs.push_back(std::move(c.launch.storages[k].data));
  }
  return result;
}

}  // namespace tessera::cli
