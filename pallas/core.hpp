// One core of the machine, stepping a planned kernel through its part of the grid: the pipeline of
// sim/interpreter.hpp for blocks whose shapes and index maps come from a module.
//
// What differs: an output block may come back after it has left, if the kernel then writes all of
// it; what it does not write keeps what the array held.
#pragma once

#include "pallas/call.hpp"

namespace tessera::pallas {

/// What all cores of a call share.
struct Launch {
  const Call* call = nullptr;
  const Program* program = nullptr;
  std::vector<std::int64_t> grid;
  int parallel = 0;    ///< leading dims whose steps are cells
  bool bodies = true;  ///< false: a dry run of blocks alone
  /// Per operand: an output with one block, which every cell writes and the last one leaves behind
  /// (real kernels pass scratch as such results). A kernel that needs more of it, what an earlier
  /// cell wrote, throws NeedsOneCell.
  std::vector<bool> lingers;
};

/// Thrown where the steps of a kernel's parallel dims turn out to be one sequence.
struct NeedsOneCell {};

std::unique_ptr<CoreBase> make_core(const Launch& launch, const Plan& plan, CoreIo& io);

/// Evaluates index maps: what block a window takes at a grid step.
class IndexMaps {
 public:
  IndexMaps(const Launch& launch, Exec& exec, int device);
  /// One index per dim of the window's array.
  void evaluate(const Window& window, const int* ids, std::int64_t* index);

 private:
  const Launch& launch_;
  Exec& exec_;
  std::vector<std::unique_ptr<Buffer>> prefetched_;
};

}  // namespace tessera::pallas
