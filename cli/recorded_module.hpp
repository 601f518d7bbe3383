// What `run MODULE --record` writes.
#pragma once

#include "cli/recorded.hpp"
#include "pallas/call_directory.hpp"

namespace tessera::cli {

/// A line of the call's run, with the call and its results. Throws InputError.
void record_module(const Recording& recording, const pallas::RecordedCall& call,
                   const RunOptions& options, const RunResult& result,
                   const report::RunReport& report);

}  // namespace tessera::cli
