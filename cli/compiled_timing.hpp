// What a run takes by the schedule that the TPU's compiler makes of its module (--timing compiler).
#pragma once

#include "cli/commands.hpp"
#include "pallas/call_directory.hpp"
#include "tpu_compiler/tpu_compiler.hpp"

namespace tessera::cli {

/// How the compiler is asked for a schedule.
tpu_compiler::Settings compiler_settings(const RunArguments& arguments);

/// Asks the compiler and puts what its schedule takes in the place of the model's timeline. Why
/// there is no schedule is said in the report. Throws InputError if there is no compiler to ask.
void add_module_timing(const RunArguments& arguments, const pallas::RecordedCall& call,
                       const RunResult& result, report::RunReport& report);
/// The same of a kernel's TPU build, for what was run.
void add_kernel_timing(const KernelHandle& kernel, const Request& request,
                       const RunArguments& arguments, report::RunReport& report);

}  // namespace tessera::cli
