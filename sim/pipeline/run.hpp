// Running a kernel through the pipeline: options, results, and the calls.
//
// On a mesh of several devices every array has the devices' parts along its first dim: device d of
// D holds rows [d * rows, (d + 1) * rows) of an array of D * rows. A kernel that copies, signals or
// aliases, a mesh, several cores or a schedule make the run use the asynchronous machine
// (sim/machine/machine.hpp), on one host thread.
//
// A kernel that is wrong is no exception but a diagnostic (the first in grid order, for every
// thread count; with keep_going, all); inputs of the wrong number, shape or dtype throw InputError.
// Results, ledger and diagnostics are the same bits for every thread count.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memory_model/array.hpp"
#include "memory_model/device_spec.hpp"
#include "sim/bounds/error_model.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/diagnostics/stop.hpp"
#include "sim/machine/barrier_use.hpp"
#include "sim/machine/schedule.hpp"
#include "sim/machine/transport.hpp"
#include "sim/numerics/profile.hpp"
#include "sim/pipeline/body.hpp"
#include "sim/pipeline/step_checksums.hpp"
#include "sim/pipeline/step_trace.hpp"

namespace tessera {

struct RunOptions {
  DeviceSpec device = default_device();
  std::vector<int> mesh = {1};  ///< devices along each axis; arrays are sharded over dim 0
  int cores = 1;                ///< of a device; they share the parallel cells and the HBM
  std::optional<Schedule> schedule = {};  ///< of the asynchronous machine; eager unless given
  bool find_races = true;                 ///< on the asynchronous machine
  /// Find all that is wrong, not the first alone: a step of a kernel that does not copy is given up
  /// where it is wrong, and the run goes on with undefined results; races and what is left behind
  /// end nothing. In one process.
  bool keep_going = false;
  /// To the processes that share the mesh, or null. The whole result is rank 0's; the others have
  /// their own part of it, and the same diagnostics.
  Transport* transport = nullptr;
  int threads = 0;                   ///< 0: what OpenMP offers
  Profile profile = Profile::exact;  ///< how products are computed
  /// Keep error bounds of the outputs: how far from them another build may be. Not across
  /// processes.
  std::optional<ErrorModel> error_model = {};
  bool keep_checksums = false;  ///< of blocks, step by step
  /// Count alone: no arithmetic, no data, no inputs (sim/pipeline/count.hpp).
  bool dry = false;
  /// Keep what every step uses (sim/pipeline/step_trace.hpp) of a run of at most so many; 0: do
  /// not.
  std::int64_t trace_steps = 0;
  bool trap_nan = false;        ///< stop at the first op that makes a NaN from numbers
  bool keep_movements = false;  ///< keep every ledger record; implies one thread
  std::vector<int> at = {};     ///< a grid step to watch; implies one thread
  bool break_at = false;        ///< raise SIGTRAP there, before the body
  std::function<void(const std::string&)> on_step = {};  ///< at that step: its blocks as text
  std::function<void(double)> progress = {};  ///< called now and then with the fraction done
  std::function<void(const std::string&)> print =
      {};                          ///< takes env.print's lines; standard output if empty
  const StopFlag* stop = nullptr;  ///< ends the run when it is set (sim/diagnostics/stop.hpp)
  std::string who = {};      ///< for messages: "matmul, case 1 (m=41)"; the kernel's name if empty
  std::string command = {};  ///< for messages: the command that reproduces this run
};

struct RunResult {
  std::vector<Array> outputs;  ///< in spec order; undefined if there is a diagnostic
  /// With an error model: f32, per element of each output; infinite where nothing wrote it.
  std::vector<Array> bounds;
  /// Per output: elements that nothing wrote, of a kernel that may leave some (they hold poison).
  std::vector<std::int64_t> undefined;
  bool complete = false;  ///< the run came to its end: outputs have what it computed
  Plan plan;              ///< operands, allocations, and the final ledger
  std::vector<int>
      grid;          ///< extents; of an arbitrary dimension with bounds, the largest upper bound
  bool dry = false;  ///< counted alone: no outputs
  std::int64_t steps = 0;
  std::int64_t flops = 0;
  std::int64_t transcendentals = 0;
  std::string no_work;  ///< of a dry run: why flops are not known; empty: they are
  StepTrace trace;      ///< of device 0, if it was asked for
  Scopes scopes;
  StepChecksums checksums;  ///< in grid order, device by device
  std::vector<Diagnostic>
      diagnostics;                 ///< what is wrong; at most one, unless RunOptions::keep_going
  std::vector<std::string> notes;  ///< what is not wrong, and worth knowing
  BarrierUse barriers;             ///< of a mesh in one process
  bool on_machine = false;         ///< true if cores ran as fibers of the asynchronous machine
  Schedule schedule;               ///< on it: the one that failed, or the last
  int schedules = 0;               ///< on it: how many were run
  std::int64_t switches = 0;       ///< on it: times that a core was resumed
  double seconds = 0;

  bool ok() const { return diagnostics.empty(); }
  const Ledger& ledger() const { return plan.ledger; }
};

using Inputs = std::vector<const Array*>;
template <class... A>
Inputs arrays(const A&... a) {
  return {&a...};
}

/// Runs a kernel on its inputs, in the order of the plan's operands that are present; with
/// RunOptions::dry, counts it. `plan` is not finished yet (finish_plan).
RunResult run(const Kernel& kernel, Plan plan, const Inputs& inputs, const RunOptions& options);

}  // namespace tessera
