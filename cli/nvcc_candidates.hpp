// Tiles by the code that nvcc makes of them for a GPU (cli/cuda_timing.hpp): registers, and what
// loops move to and from local memory, are its own, where predictions estimate them.
#pragma once

#include <memory>

#include "cli/scheduled.hpp"

namespace tessera::cli {

/// `tuned` must outlive it. Throws InputError[no-backend] where nothing can be compiled.
std::unique_ptr<Scheduler> nvcc_scheduler(const TunedKernel& tuned);

}  // namespace tessera::cli
