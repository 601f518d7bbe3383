// tessera run, show and golden of a Triton launch in a folder (triton/case_directory.hpp).
#pragma once

#include <memory>

#include "cli/module_commands.hpp"

namespace tessera::cli {

/// True if it is the folder of a Triton launch.
bool is_triton_launch(const std::string& kernel);
/// Throws InputError; KernelError[unsupported] where an op is not built.
int run_triton_command(const RunArguments& arguments);
int show_triton_command(const RunArguments& arguments);
std::unique_ptr<LoadedModule> load_triton_launch(const RunArguments& arguments);
/// As ModuleCommands has them.
golden::Golden make_launch_golden(const RunArguments& arguments, const ErrorModel& model,
                                  const std::string& command, std::vector<Diagnostic>& diagnostics);
RunResult run_launch_again(const RunArguments& arguments, const golden::Golden& made,
                           const std::string& folder);

}  // namespace tessera::cli
