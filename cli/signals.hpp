// What ends a command before its time: Ctrl-C, --time-limit, and a fault in a kernel's body.
//
// The first two set the flag that runs look at (sim/diagnostics/stop.hpp), so that a run says where
// it was. What does not look at it is ended a second later. A fault (a null dereference, a stack
// that overflows) ends the command at once. Either way the last words name the kernel, the grid
// step and, as far as the debug information of what was interrupted can be read, the line.
#pragma once

#include "sim/diagnostics/stop.hpp"

namespace tessera::cli {

/// From now on Ctrl-C and faults end this program in these ways. Once a process.
void handle_signals();
/// Ends what runs after so many seconds.
void limit_time(double seconds);
/// Lifts the limit: something else keeps it.
void unlimit_time();
/// What the runs of this program look at.
const StopFlag& stop_flag();

inline constexpr int kInterrupted = 130;  ///< exit code, as a shell has it

}  // namespace tessera::cli
