// What the command line says of a Mosaic module and its arrays.
#pragma once

#include "cli/commands.hpp"
#include "golden/golden.hpp"
#include "pallas/call_directory.hpp"

namespace tessera::cli {

/// True if it is a folder.
bool is_folder(const std::string& path);

/// Inputs come first: results are the operands at the end that the body writes.
std::size_t inputs_of(const program::Program& program);

/// The call in a recorded folder, or of a .mlirbc or .mlir file with its --input. Throws
/// InputError.
pallas::RecordedCall call_of(const RunArguments& arguments);

/// Operands of the custom call, in its order.
std::vector<Array> operands_of(const program::Call& call);
/// The files of its folder but the arrays.
std::vector<pallas::CallFile> files_of(const RunArguments& arguments,
                                       const pallas::RecordedCall& call, const RunOptions& options,
                                       const RunResult& result);

/// What --device says, else what the call was recorded on. Throws InputError.
DeviceSpec device_of(const RunArguments& arguments, const std::optional<DeviceSpec>& recorded);

/// Devices, cores, schedule and device spec of its run.
RunOptions call_options(const RunArguments& arguments, const pallas::RecordedCall& call);

// The commands, as ModuleCommands has them.
int run_module_command(const RunArguments& arguments);
int show_module_command(const RunArguments& arguments);
int check_command(const Kernels& kernels, const CheckArguments& arguments);
int extract_command(const std::string& file, const std::string& folder);
golden::Golden make_module_golden(const RunArguments& arguments, const ErrorModel& model,
                                  const std::string& command, std::vector<Diagnostic>& diagnostics);
RunResult run_module_again(const RunArguments& arguments, const golden::Golden& made,
                           const std::string& folder, bool keep_checksums);

}  // namespace tessera::cli
