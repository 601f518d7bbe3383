// The command line that does again what was done: in `replay` lines, in the manifests of goldens,
// on pages.
//
// It has what changes a result (values, bytes, limits, what is looked for) and leaves out what is
// default, what changes no result (--threads) and where files go. Steps and schedules are added by
// what finds them.
#pragma once

#include "cli/commands.hpp"

namespace tessera::cli {

/// Says how the program was started (argv[0]): a user's own program is named in commands as it was
/// called, tessera is "tessera".
void name_program(const char* called);
/// A command for a user to type, with "tessera" as this program is called.
std::string as_called(const std::string& command);

/// Words as a shell takes them apart again.
std::string joined(const std::vector<std::string>& words);

/// What follows the command's name.
std::vector<std::string> words_of(const std::string& command, const RunArguments& arguments);
/// "tessera run matmul --case 1 --dtype bf16"; `command`: "run", "golden make".
std::string command_of(const std::string& command, const RunArguments& arguments);
std::string command_of(const std::string& command, const RunArguments& arguments,
                       const GoldenArguments& golden);

/// The options of an error model, each after a space.
std::string model_options(const GoldenArguments& golden);

/// What was asked of a kernel, in words again (request_of).
RunArguments arguments_of(const std::string& kernel, const Request& request);

}  // namespace tessera::cli
