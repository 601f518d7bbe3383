// What a run takes on a GPU by the code that nvcc makes of its instance (--timing compiler): its
// registers, and how often it moves what found none. No GPU is needed.
#pragma once

#include "cli/registry.hpp"
#include "report/run_report.hpp"

namespace tessera::cli {

/// Why no code is read that nvcc makes for this device; "": it is.
std::string why_no_code(const DeviceSpec& device);
/// Throws InputError[no-backend] where this program cannot ask nvcc.
void require_nvcc();

/// Compiles the instance, or takes it from the user's cache, and puts the timeline of the run into
/// its report. Throws InputError[no-backend] where nothing can be compiled.
void add_cuda_timing(const KernelHandle& kernel, const Request& request, const RunResult& result,
                     std::size_t spans, report::RunReport& report);

}  // namespace tessera::cli
