// What a run takes by the schedule that the TPU's compiler makes of its module (--timing compiler).
#pragma once

#include "cli/commands.hpp"
#include "pallas/call_directory.hpp"

namespace tessera::cli {

/// Asks the compiler and puts what its schedule takes in the place of the model's timeline. Why
/// there is no schedule is said in the report. Throws InputError if there is no compiler to ask.
void add_compiled_timing(const RunArguments& arguments, const pallas::RecordedCall& call,
                         const RunResult& result, report::RunReport& report);

}  // namespace tessera::cli
