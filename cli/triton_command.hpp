// tessera run and tessera show of a Triton launch in a folder (triton/case_directory.hpp).
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

}  // namespace tessera::cli
