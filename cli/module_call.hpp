// What the command line says of a Mosaic module and its arrays.
#pragma once

#include "cli/commands.hpp"
#include "pallas/call_directory.hpp"

namespace tessera::cli {

/// True if it is a folder.
bool is_folder(const std::string& path);

/// Inputs come first: results are the operands at the end that the body writes.
std::size_t inputs_of(const program::Program& program);

/// The call in a recorded folder, or of a .mlirbc or .mlir file with its --input. Throws
/// InputError.
pallas::RecordedCall call_of(const RunArguments& arguments);

/// What --device says, else what the call was recorded on. Throws InputError.
DeviceSpec device_of(const RunArguments& arguments, const std::optional<DeviceSpec>& recorded);

/// Devices, cores, schedule and device spec of its run.
RunOptions call_options(const RunArguments& arguments, const pallas::RecordedCall& call);

}  // namespace tessera::cli
