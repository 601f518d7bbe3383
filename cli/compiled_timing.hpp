// What a run takes by the schedule that the TPU's compiler makes of its module (--timing compiler).
#pragma once

#include "cli/commands.hpp"
#include "pallas/call_directory.hpp"
#include "predict/tpu_schedule.hpp"
#include "tpu_compiler/tpu_compiler.hpp"

namespace tessera::cli {

/// Why the schedule of a kernel on a mesh is not played.
inline constexpr const char* kOneDevice =
    "the compiler's schedule of one device does not say what the others send";

/// How the compiler is asked for a schedule.
tpu_compiler::Settings compiler_settings(const RunArguments& arguments);

/// What an accepted module takes by `compiler`'s schedule of it; why it has none is said in
/// `unmodelled`. Of the call's operands the extents of the grid are always known, prefetched arrays
/// and inputs if `operands_known`.
predict::TpuSchedule played_schedule(const tpu_compiler::TpuCompiler& compiler,
                                     const tpu_compiler::Verdict& accepted,
                                     const program::Call& call, bool operands_known,
                                     const DeviceSpec& device, std::size_t most_spans = 0);

/// Asks the compiler and puts what its schedule takes in the place of the model's timeline. Why
/// there is no schedule is said in the report. Throws InputError if there is no compiler to ask.
void add_module_timing(const RunArguments& arguments, const pallas::RecordedCall& call,
                       const RunResult& result, report::RunReport& report);
/// The same of a kernel's TPU build, for what was run.
void add_kernel_timing(const KernelHandle& kernel, const Request& request,
                       const RunArguments& arguments, report::RunReport& report);

}  // namespace tessera::cli
