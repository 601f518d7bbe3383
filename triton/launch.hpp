// A launch of a Triton kernel: a grid of programs on arguments.
//
// Programs run in any order, as on a GPU; here they run on threads, several at once, or, of a
// kernel with atomics or prints, one after the other in the order of the grid (x fastest). Where
// programs may race, or one fails, the launch runs again on one thread, so that the first error in
// the order of the grid is the one reported: storages, ledger and diagnostics are the same bits for
// every thread count. Programs that wait for one that the grid has later take turns (waiting.hpp).
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/pipeline/run.hpp"
#include "triton/plan_kernel.hpp"

namespace tessera::triton {

struct Argument {
  Scalar value = {};        ///< of a scalar, in its parameter's type
  int storage = -1;         ///< of a pointer; -1: a scalar, or a null pointer
  std::int64_t offset = 0;  ///< of a pointer: its first element
  /// Of a pointer: the bytes of its storage that it is for; end -1: all.
  std::int64_t begin = 0;
  std::int64_t end = -1;
};

/// One allocation: what a tensor and its views share.
struct LaunchStorage {
  std::string name;
  Array data;              ///< of one dim; changed by the launch
  bool undefined = false;  ///< nothing was written there yet
  std::span<std::byte> outside =
      {};  ///< the caller's own memory, of data's dtype, in place of data
  /// Or null: which of its bytes are undefined, before the launch and after it.
  Ranges* undefined_bytes = nullptr;

  std::byte* bytes() { return outside.data() != nullptr ? outside.data() : data.bytes(); }
  std::int64_t size_bytes() const {
    return outside.data() != nullptr ? std::ssize(outside) : data.size_bytes();
  }
};

struct Launch {
  const Kernel* kernel = nullptr;
  std::array<std::int64_t, 3> grid{1, 1, 1};
  std::vector<Argument> arguments;  ///< of each parameter
  /// Those that arguments point to; others that pointers in memory may point to, at the addresses
  /// that `outside` has.
  std::vector<LaunchStorage> storages;
  bool footprint = false;  ///< which parts of memory its programs ask for is wanted
  /// Of an earlier launch, its result's: when threads begin and in which order they take programs
  /// depends on them, nothing else.
  double program_seconds = 0;
  std::array<int, 3> axes{0, 1, 2};
};

/// What a line of the kernel asked of a storage.
struct LineTraffic {
  Location line;
  std::size_t site = 0;
  std::size_t storage = 0;
  Requested requested;
};

struct LaunchResult {
  /// `outputs` is empty: the launch's storages have the results. `bounds`, if they are kept, are
  /// theirs. `plan.device` is not set: it would be copied by every launch.
  RunResult run;
  std::vector<LineTraffic> lines;
  std::vector<bool> written;   ///< per storage: a store or an atomic reached it
  double program_seconds = 0;  ///< on one thread; 0: not known
  /// Of the grid, from that along which what programs write moves least. Threads that take programs
  /// in this order write in places of their own.
  std::array<int, 3> axes{0, 1, 2};
  GridTiles tiles;                 ///< if Launch::footprint; none of programs that ran together
  std::int64_t atomic_passes = 0;  ///< triton/atomic_passes.hpp, all
  std::int64_t most_atomic_passes = 0;  ///< of the unit that has most
};

/// Runs it on the launch's storages, which it changes; as they were, if there is a diagnostic.
/// Throws InputError if the arguments are not the kernel's.
LaunchResult run_launch(Launch& launch, const RunOptions& options);

}  // namespace tessera::triton
