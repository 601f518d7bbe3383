// What the commands do with a module: a kernel that another compiler's front end wrote, as a file
// or a recorded call. What reads and runs modules is a library of its own, which is loaded when a
// module is named: a program that runs C++ kernels alone does without.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/scheduled.hpp"
#include "cli/timing.hpp"
#include "golden/golden.hpp"

namespace tessera::cli {

/// A module and its arrays, to be run or counted on one device after the other.
class LoadedModule {
 public:
  LoadedModule() = default;
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  virtual ~LoadedModule() = default;

  virtual const std::string& name() const = 0;
  virtual const char* frontend() const = 0;
  /// Of most of its work.
  virtual DType dtype() const = 0;
  /// What the arguments and the recorded call say of a run. Throws InputError.
  virtual RunOptions options(const RunArguments& arguments) const = 0;
  virtual RunResult run(const RunOptions& options) const = 0;
};

class ModuleCommands {
 public:
  ModuleCommands() = default;
  ModuleCommands(const ModuleCommands&) = delete;
  ModuleCommands& operator=(const ModuleCommands&) = delete;
  virtual ~ModuleCommands() = default;

  virtual int run(const RunArguments& arguments) const = 0;
  virtual int show(const RunArguments& arguments) const = 0;
  /// Lists the kernels inside a lowered program; `folder`: where to write them, or "".
  virtual int extract(const std::string& file, const std::string& folder) const = 0;
  /// What the TPU's compiler says of modules and of kernels' TPU builds, and what tessera refuses.
  virtual int check(const Kernels& kernels, const CheckArguments& arguments) const = 0;
  /// run KERNEL --timing compiler: of the kernel's TPU build. Throws InputError.
  virtual void add_compiled_timing(const KernelHandle& kernel, const Request& request,
                                   const RunArguments& arguments,
                                   report::RunReport& report) const = 0;
  /// What its TPU build asks of a core's units (cli/unit_timing.hpp). Returns why not; "": done.
  virtual std::string add_unit_timing(const KernelHandle& kernel, const Request& request,
                                      const Timing& timing, report::RunReport& report) const = 0;
  /// tune KERNEL --timing compiler: what compiles candidates; both must outlive it. Throws
  /// InputError.
  virtual std::unique_ptr<Scheduler> scheduler(const TunedKernel& tuned,
                                               const RunArguments& arguments) const = 0;
  virtual std::unique_ptr<LoadedModule> load(const RunArguments& arguments) const = 0;
  /// The same of what can be counted: throws InputError of a Triton launch.
  virtual std::unique_ptr<LoadedModule> counted(const RunArguments& arguments) const = 0;
  /// Nothing to compare it with. `diagnostics` gets what is wrong with it; the golden is empty
  /// then.
  virtual golden::Golden make_golden(const RunArguments& arguments, const ErrorModel& model,
                                     const std::string& command,
                                     std::vector<Diagnostic>& diagnostics) const = 0;
  /// The call of a module's golden, which lies in `folder`.
  virtual RunResult run_again(const RunArguments& arguments, const golden::Golden& made,
                              const std::string& folder, bool keep_checksums) const = 0;
  /// The module of a kernel for a TPU, in a folder with its call and a Python file.
  virtual int build(const KernelHandle& kernel, const RunArguments& arguments,
                    const BuildArguments& build) const = 0;
  /// Of a kind of modules ("a Mosaic module"): the ops that they may have, with their meanings.
  struct Ops {
    std::string of;
    std::vector<std::pair<std::string, std::string>> meanings;
  };
  virtual std::vector<Ops> ops() const = 0;
};

/// Those linked into this program, else those of its library. Throws InputError[not-built].
const ModuleCommands& module_commands();

/// True if what is to be run is no kernel's name but a Mosaic module, or a folder with one, or with
/// a launch of a Triton kernel.
bool is_module(const std::string& kernel);

}  // namespace tessera::cli

/// What the library gives; a program may have it linked in.
extern "C" const tessera::cli::ModuleCommands* tessera_module_commands() __attribute__((weak));
