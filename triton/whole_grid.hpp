// Programs that run together. Where each program of a grid does the same few ops on elements
// (loads, elementwise ops, stores; no loop, no branch, no reduction) at addresses that are affine
// in its id and in the index of a lane, all programs of a row of the grid are one program with one
// dim more: indices are computed once, what is accessed is proven to be inside, defined, and no
// other program's, and then elements go from the caller's memory to the caller's memory.
//
// It is that or nothing: a launch of which something cannot be proven so runs program by program
// (launch.hpp), which finds what is wrong. Programs whose masks leave lanes out run so in any case,
// a row's last one for instance, after the proof; what they may fail in undoes all.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "program/planner.hpp"
#include "triton/memory.hpp"

namespace tessera::triton {

using namespace program;

struct GridForm;

/// Null if the kernel is none of these. `made`: its elementwise ops. Of sites the op has its number
/// (kNumber of plan_kernel.cpp).
std::shared_ptr<const GridForm> grid_form(const Module& module, const Function& main,
                                          const std::map<int, Planner::MadeBy>& made,
                                          const std::vector<Site>& sites);

/// A launch of such a kernel.
struct GridLaunch {
  std::array<std::int64_t, 3> grid{1, 1, 1};
  std::vector<Scalar> arguments;  ///< of each parameter; of a pointer its address, an i64
  int threads = 1;
  bool dry = false;  ///< what they ask for is counted, and that is all
};

/// Runs all programs and adds what they asked for, FLOP left out. `alone(i)` runs program i as
/// ever, and throws what it does; of the others nothing has run by then. False, and nothing has
/// run, where something cannot be proven.
bool run_grid(const GridForm& form, const GridLaunch& launch, Memory& memory,
              std::vector<Requested>& requested, std::int64_t& together,
              const std::function<void(std::int64_t)>& alone);

}  // namespace tessera::triton
