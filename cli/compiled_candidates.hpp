// Google's compiler as what ranks a kernel's tiles (cli/scheduled.hpp): each candidate's TPU build
// is compiled in a process that stays for the next one, and its schedule is played.
#pragma once

#include <memory>

#include "cli/scheduled.hpp"

namespace tessera::cli {

/// Both must outlive it. Throws InputError if there is no compiler to ask, or no TPU build of the
/// kernel.
std::unique_ptr<Scheduler> libtpu_scheduler(const TunedKernel& tuned,
                                            const RunArguments& arguments);

}  // namespace tessera::cli
