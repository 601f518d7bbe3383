// tessera run and tessera show of a Triton launch in a folder (triton/case_directory.hpp).
#pragma once

#include "cli/commands.hpp"

namespace tessera::cli {

/// True if it is the folder of a Triton launch.
bool is_triton_launch(const std::string& kernel);
/// Throws InputError; KernelError[unsupported] where an op is not built.
int run_triton_command(const RunArguments& arguments);
int show_triton_command(const RunArguments& arguments);

}  // namespace tessera::cli
