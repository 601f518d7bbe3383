// Host threads that share a run's cells: they sleep between loops that do not follow at once, and a
// loop never waits for one that has not begun. On a busy machine the caller does their part.
//
// (OpenMP's threads spin between loops and at their ends, and its loops wait for all of them: with
// one of two cores busy a run of 5 ms took 20.)
#pragma once

#include <cstdint>
#include <functional>

namespace tessera {

/// Calls body(i) once for each i in [0, n), begun in increasing order, on this thread and on up to
/// `threads` - 1 others; returns when all have returned. `body` does not throw. May be called by
/// several threads at a time, and by a body.
void each_on_threads(std::int64_t n, int threads, const std::function<void(std::int64_t)>& body);

}  // namespace tessera
