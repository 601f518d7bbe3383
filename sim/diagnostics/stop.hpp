// Ending a run from outside: Ctrl-C, or a limit of time.
//
// Whoever ends a run sets its flag, from any thread or from a signal handler. The run looks at it
// in every step of the grid, in every read and write of a body's tiles, in every loop of a module,
// and whenever a core of the machine starts, signals or waits; it ends with `interrupted` or
// `time-limit`, and the line it was in. What a body does between those is not cut short.
#pragma once

#include <atomic>
#include <cstdint>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera {

enum class Stop : std::uint8_t { none, interrupted, time_limit };
using StopFlag = std::atomic<Stop>;
static_assert(StopFlag::is_always_lock_free, "signal handlers set it");

/// Such an end: on several threads the run does not go back to find an earlier error.
struct Stopped : KernelError {
  using KernelError::KernelError;
};

/// "interrupted" or "time-limit".
const char* slug(Stop why);
/// The headline of each end.
const char* headline(Stop why);
/// Throws Stopped.
[[noreturn]] void stop(Stop why);

}  // namespace tessera
