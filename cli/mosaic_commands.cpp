// ModuleCommands of Mosaic modules: libtessera_modules.so.
#include "cli/module_call.hpp"
#include "cli/module_commands.hpp"
#include "pallas/rules.hpp"

namespace tessera::cli {

namespace {

class CountedCall final : public CountedModule {
 public:
  explicit CountedCall(const RunArguments& arguments) : call_(call_of(arguments)) {}

  const std::string& name() const override { return call_.program->name; }
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

class MosaicCommands final : public ModuleCommands {
 public:
  int run(const RunArguments& arguments) const override { return run_module_command(arguments); }
  int show(const RunArguments& arguments) const override { return show_module_command(arguments); }
  int extract(const std::string& file, const std::string& folder) const override {
    return extract_command(file, folder);
  }
  int check(const CheckArguments& arguments) const override { return check_command(arguments); }
  std::unique_ptr<CountedModule> counted(const RunArguments& arguments) const override {
    return std::make_unique<CountedCall>(arguments);
  }
  golden::Golden make_golden(const RunArguments& arguments, const ErrorModel& model,
                             const std::string& command,
                             std::vector<Diagnostic>& diagnostics) const override {
    return make_module_golden(arguments, model, command, diagnostics);
  }
  RunResult run_again(const RunArguments& arguments, const golden::Golden& made,
                      const std::string& folder, bool keep_checksums) const override {
    return run_module_again(arguments, made, folder, keep_checksums);
  }
  std::vector<std::pair<std::string, std::string>> ops() const override {
    std::vector<std::pair<std::string, std::string>> ops;
    for (const auto& [name, rule] : pallas::rules().all()) ops.emplace_back(name, rule->meaning);
    return ops;
  }
};

}  // namespace

}  // namespace tessera::cli

extern "C" const tessera::cli::ModuleCommands* tessera_module_commands() {
  static const tessera::cli::MosaicCommands commands;
  return &commands;
}
