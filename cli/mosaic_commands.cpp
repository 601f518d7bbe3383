// ModuleCommands of Mosaic modules, and of Triton launches: libtessera_modules.so.
#include "cli/compiled_candidates.hpp"
#include "cli/compiled_timing.hpp"
#include "cli/interface.hpp"
#include "cli/module_call.hpp"
#include "cli/module_commands.hpp"
#include "cli/tpu_build.hpp"
#include "cli/triton_command.hpp"
#include "cli/unit_timing.hpp"
#include "pallas/rules.hpp"
#include "triton/rules.hpp"

namespace tessera::cli {

namespace {

class LoadedCall final : public LoadedModule {
 public:
  explicit LoadedCall(const RunArguments& arguments) : call_(call_of(arguments)) {}

  const std::string& name() const override { return call_.program->name; }
  const char* frontend() const override { return "mosaic"; }
  DType dtype() const override { return program::main_dtype(*call_.program); }
  RunOptions options(const RunArguments& arguments) const override {
    return call_options(arguments, call_);
  }
  RunResult run(const RunOptions& options) const override {
    return program::run_call(call_.call, options);
  }

 private:
  pallas::RecordedCall call_;
};

/// Throws InputError of a Triton launch.
void refuse_triton(const RunArguments& arguments, const char* what) {
  if (is_triton_launch(arguments.kernel))
    throw InputError("bad-input", std::string(what) + " is not built for Triton launches yet");
}

ModuleCommands::Ops ops_of(const char* of, const program::RuleTable& rules) {
  ModuleCommands::Ops ops{of, {}};
  for (const auto& [name, rule] : rules.all()) ops.meanings.emplace_back(name, rule->meaning);
  return ops;
}

class LinkedCommands final : public ModuleCommands {
 public:
  int run(const RunArguments& arguments) const override {
    return is_triton_launch(arguments.kernel) ? run_triton_command(arguments)
                                              : run_module_command(arguments);
  }
  int show(const RunArguments& arguments) const override {
    return is_triton_launch(arguments.kernel) ? show_triton_command(arguments)
                                              : show_module_command(arguments);
  }
  int extract(const std::string& file, const std::string& folder) const override {
    return extract_command(file, folder);
  }
  int check(const Kernels& kernels, const CheckArguments& arguments) const override {
    return check_command(kernels, arguments);
  }
  void add_compiled_timing(const KernelHandle& kernel, const Request& request,
                           const RunArguments& arguments,
                           report::RunReport& report) const override {
    add_kernel_timing(kernel, request, arguments, report);
  }
  std::string add_unit_timing(const KernelHandle& kernel, const Request& request,
                              const Timing& timing, report::RunReport& report) const override {
    return tessera::cli::add_unit_timing(kernel, request, timing, report);
  }
  std::unique_ptr<Scheduler> scheduler(const TunedKernel& tuned,
                                       const RunArguments& arguments) const override {
    return libtpu_scheduler(tuned, arguments);
  }
  std::unique_ptr<LoadedModule> load(const RunArguments& arguments) const override {
    if (is_triton_launch(arguments.kernel)) return load_triton_launch(arguments);
    return std::make_unique<LoadedCall>(arguments);
  }
  std::unique_ptr<LoadedModule> counted(const RunArguments& arguments) const override {
    refuse_triton(arguments, "counting over devices");
    return load(arguments);
  }
  golden::Golden make_golden(const RunArguments& arguments, const ErrorModel& model,
                             const std::string& command,
                             std::vector<Diagnostic>& diagnostics) const override {
    if (is_triton_launch(arguments.kernel))
      return make_launch_golden(arguments, model, command, diagnostics);
    return make_module_golden(arguments, model, command, diagnostics);
  }
  RunResult run_again(const RunArguments& arguments, const golden::Golden& made,
                      const std::string& folder, bool keep_checksums) const override {
    if (made.frontend == "triton") return run_launch_again(arguments, made, folder);
    return run_module_again(arguments, made, folder, keep_checksums);
  }
  int build(const KernelHandle& kernel, const RunArguments& arguments,
            const BuildArguments& build) const override {
    return write_tpu_build(kernel, arguments, build);
  }
  std::vector<Ops> ops() const override {
    return {ops_of("a Mosaic module", pallas::rules()), ops_of("a Triton kernel", triton::rules())};
  }
};

}  // namespace

}  // namespace tessera::cli

extern "C" const tessera::cli::ModuleCommands* tessera_module_commands() {
  static const tessera::cli::LinkedCommands commands;
  return &commands;
}

extern "C" const char* tessera_interface() { return tessera::cli::kInterface.data(); }
