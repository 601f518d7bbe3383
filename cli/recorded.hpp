// What `run --record` writes of runs, and what `replay` runs again.
#pragma once

#include <optional>
#include <string>

#include "cli/commands.hpp"
#include "record/folder.hpp"

namespace tessera::cli {

/// A folder, and what the command line says of the run.
struct Recording {
  record::Folder folder;
  const RunArguments& arguments;
};
/// None without --record. Throws InputError.
std::optional<Recording> recording_of(const RunArguments& arguments);

/// A line of a C++ kernel's run, with its outputs and the inputs that were given as files. The
/// outcome has its inputs.
void record_run(const Recording& recording, const KernelHandle& kernel, const Request& request,
                const Outcome& outcome, const report::RunReport& report);

/// The same of a request that was carried out, without its arguments; `keep`: the arrays too.
record::Record record_of(const record::Folder& folder, const KernelHandle& kernel,
                         const Request& request, const Outcome& outcome,
                         const report::RunReport& report, bool keep);

}  // namespace tessera::cli
