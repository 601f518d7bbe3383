// How long a run of a C++ kernel takes: what `run` says, what `sweep`, `advise` and a page's advice
// compare, and what `tune` ranks by.
//
// On a TPU that is from the units which the kernel's TPU build asks for (cli/unit_timing.hpp),
// where the build is compiled, is counted without data, and somebody measured the core; else from
// published rates, the least that it can take, and the timeline says why (`why_model`). On a GPU it
// is the device's model, if asked for by the code that nvcc makes.
#pragma once

#include <string>

#include "cli/registry.hpp"
#include "report/run_report.hpp"

namespace tessera::cli {

struct Timing {
  std::string by = "best";  ///< as --timing has it: "best", "units", "model"; of a GPU "compiler"
  std::size_t spans = 0;    ///< to keep
};

/// Puts the timeline of a run into its report, and what its lines cost. `request` as it ran. Called
/// by several threads at once.
void add_timing(const KernelHandle& kernel, const Request& request, const RunResult& result,
                const Timing& timing, report::RunReport& report);

}  // namespace tessera::cli
