// Programs that wait for what others of the same launch have yet to write, by atomics that leave
// memory as it was.
//
// Each is a fiber (sim/machine/fiber.hpp). They start in the order of the grid, each when those
// before it have ended or wait; then those that wait take turns, in that order, so that a launch
// has one schedule, and all of a grid is on the device at once. Where nothing changes any more and
// all that are left poll, that is a `deadlock`. Left out: waiting by loads that are no atomics, and
// grids that a device does not hold at once, whose later programs would never start there.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "triton/worker.hpp"

namespace tessera::triton {

/// Runs all programs. Throws KernelError. `print` takes what a program has printed when it ends.
void run_waiting(const Running& of, Memory& memory, std::vector<Requested>& requested,
                 const std::function<void(std::string&)>& print);

}  // namespace tessera::triton
