// Goldens of Mosaic modules: of one call, whose inputs are a recorded call (pallas/call_directory)
// in the golden's folder `inputs`, so that `tessera run GOLDEN/inputs` runs it again.
#pragma once

#include "golden/golden.hpp"
#include "pallas/call_directory.hpp"

namespace tessera::golden {

/// `operands`: of the custom call, in order. `files`: what pallas::call_files() makes of it.
/// `result`: of a run with an error model and checksums, whose options those are.
Golden golden_of_call(const std::string& kernel, std::vector<Array> operands,
                      const std::vector<pallas::CallFile>& files, RunResult result,
                      const RunOptions& options, const std::string& command);

}  // namespace tessera::golden
