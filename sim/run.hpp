// Running a kernel from a program of your own.
//
//   auto result = tessera::run(Matmul<float>{.m = 512, .n = 512, .k = 512}, tiles(128, 128, 128),
//                              arrays(x, y), {.device = load_device("tpu-v5e")});
//   if (!result.ok()) std::cerr << result.diagnostics[0].text();
//   result.outputs[0];                       // the first out() of the spec
//   result.ledger().hbm_read_bytes();        // every byte, per ref in result.ledger().refs()
//
// On a mesh of several devices every array has the devices' parts along its first dim: device d of
// D holds rows [d * rows, (d + 1) * rows) of an array of D * rows. A kernel that copies, signals or
// aliases, a mesh, several cores or a schedule make the run use the asynchronous machine
// (sim/machine/machine.hpp), on one host thread.
//
// Inputs are given in the order of the spec's in() operands that are present. A kernel that is
// wrong is no exception but a diagnostic (the first in grid order, for every thread count); inputs
// of the wrong number, shape or dtype throw InputError. Results, ledger and diagnostics are the
// same bits for every thread count.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory_model/array.hpp"
#include "memory_model/device_spec.hpp"
#include "sim/body/kernel.hpp"
#include "sim/bounds/error_model.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/dry.hpp"
#include "sim/interpreter.hpp"

namespace tessera {

struct RunOptions {
  DeviceSpec device = default_device();
  std::vector<int> mesh = {1};  ///< devices along each axis; arrays are sharded over dim 0
  int cores = 1;                ///< of a device; they share the parallel cells and the HBM
  std::optional<Schedule> schedule = {};  ///< of the asynchronous machine; eager unless given
  bool find_races = true;                 ///< on the asynchronous machine
  /// To the processes that share the mesh, or null. The whole result is rank 0's; the others have
  /// their own part of it, and the same diagnostics.
  Transport* transport = nullptr;
  int threads = 0;                   ///< 0: what OpenMP offers
  Profile profile = Profile::exact;  ///< how products are computed
  /// Keep error bounds of the outputs: how far from them another build may be. Not across
  /// processes.
  std::optional<ErrorModel> error_model = {};
  bool keep_checksums = false;  ///< of blocks, step by step
  /// Count alone: no arithmetic, no data, no inputs (sim/dry.hpp).
  bool dry = false;
  /// Keep what every step uses (sim/step_trace.hpp) of a run of at most so many; 0: do not.
  std::int64_t trace_steps = 0;
  bool trap_nan = false;        ///< stop at the first op that makes a NaN from numbers
  bool keep_movements = false;  ///< keep every ledger record; implies one thread
  std::vector<int> at = {};     ///< a grid step to watch; implies one thread
  bool break_at = false;        ///< raise SIGTRAP there, before the body
  std::function<void(const std::string&)> on_step = {};  ///< at that step: its blocks as text
  std::function<void(double)> progress = {};  ///< called now and then with the fraction done
  std::function<void(const std::string&)> print =
      {};                    ///< takes env.print's lines; standard output if empty
  std::string who = {};      ///< for messages: "matmul, case 1 (m=41)"; the kernel's name if empty
  std::string command = {};  ///< for messages: the command that reproduces this run
};

struct RunResult {
  std::vector<Array> outputs;  ///< in spec order; undefined if there is a diagnostic
  /// With an error model: f32, per element of each output; infinite where nothing wrote it.
  std::vector<Array> bounds;
  /// Per output: elements that nothing wrote, of a kernel that may leave some (they hold poison).
  std::vector<std::int64_t> undefined;
  Plan plan;  ///< operands, allocations, and the final ledger
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
  std::vector<Diagnostic> diagnostics;
  bool on_machine = false;    ///< true if cores ran as fibers of the asynchronous machine
  Schedule schedule;          ///< on it: the one that failed, or the last
  int schedules = 0;          ///< on it: how many were run
  std::int64_t switches = 0;  ///< on it: times that a core was resumed
  double seconds = 0;

  bool ok() const { return diagnostics.empty(); }
  const Ledger& ledger() const { return plan.ledger; }
};

using Inputs = std::vector<const Array*>;
template <class... A>
Inputs arrays(const A&... a) {
  return {&a...};
}

namespace detail {
/// What a ledger holds besides the movements: scalars, of the devices that are `here`, and elided
/// transfers.
void close_ledger(const Plan& plan, Ledger& ledger, int devices, std::int64_t steps,
                  const std::function<bool(int)>& here);

/// Puts what scopes took at most among the allocations.
void add_scoped_peaks(const Machine& machine, Plan& plan);

/// Everything about a run that does not depend on the kernel's type.
class RunDriver {
 public:
  RunDriver(Plan plan, const Inputs& inputs, const RunOptions& options);
  RunDriver(const RunDriver&) = delete;
  RunDriver& operator=(const RunDriver&) = delete;

  /// Runs every cell with cores from `make_core`, then the checks that need the whole run.
  RunResult execute(std::int64_t cells,
                    const std::function<std::unique_ptr<CoreBase>(CoreIo&)>& make_core);

  const Plan& plan() const { return plan_; }

 private:
  bool run_parallel(std::int64_t cells, int threads,
                    const std::function<std::unique_ptr<CoreBase>(CoreIo&)>& make_core,
                    RunResult& result);
  void run_serial(std::int64_t cells,
                  const std::function<std::unique_ptr<CoreBase>(CoreIo&)>& make_core,
                  RunResult& result);
  void run_on_machine(std::int64_t cells,
                      const std::function<std::unique_ptr<CoreBase>(CoreIo&)>& make_core,
                      RunResult& result);
  std::uint64_t run_schedule(std::int64_t cells, const Schedule& schedule,
                             const std::function<std::unique_ptr<CoreBase>(CoreIo&)>& make_core,
                             RunResult& result);
  void merge_ranks(RunResult& result);
  bool here(int device) const;
  void begin(RunResult& result);
  void reset();
  void collect(const CoreTotals& core, int device, RunResult& result);
  void finish(RunResult& result);

  Plan plan_;
  const RunOptions& options_;
  int devices_ = 1;
  Inputs inputs_;
  std::vector<Array> outputs_;
  std::vector<Array> bounds_;  ///< of outputs_, or empty
  std::vector<DeviceIo> device_io_;
  std::vector<std::vector<Missing>> missing_;  ///< per device and operand
  std::function<void(double)> progress_;
  CoreIo io_;
};

/// Adds the counts of a walk to those of the run.
void add_walk(RunResult& result, const DryCount& count, int device);
/// What the machine and the ledger know when the last walk has ended.
void end_dry(RunResult& result, const Machine& machine);
/// Refuses a body that decides by values what it copies.
[[noreturn]] void fail_value_needed(const Plan& plan);

/// Where the steps of a device's cores are kept; null: nowhere.
StepTrace* trace_for(RunResult& result, const RunOptions& options, int device);

/// Walks the grid on every core.
template <class K, class S>
RunResult dry_run(const K& kernel, const S& spec, const Plan& plan, StepContext& context,
                  const RunOptions& options) {
  RunResult result;
  result.dry = true;
  result.plan = plan;
  result.trace.most = options.trace_steps;
  context.plan = &result.plan;
  Machine machine(options.mesh, options.cores, {}, false);
  if (machine.cores() > 1 || options.schedule || plan.asynchronous()) count_scratch(result.plan);
  const std::int64_t cells = cell_count(spec.grid);
  for (int id = 0; id < machine.cores(); ++id) {
    MachineCore& core = machine.core(id);
    DryWalk<K, S> walk(kernel, spec, result.plan,
                       {.core = &core,
                        .trace = trace_for(result, options, core.device),
                        .progress = options.progress ? &options.progress : nullptr});
    context.ids = walk.ids();
    walk.run_cells(cells * core.core / options.cores, cells * (core.core + 1) / options.cores);
    add_walk(result, walk.total(), core.device);
    context.ids = nullptr;
  }
  end_dry(result, machine);
  return result;
}
/// As that; bodies with scratch of their own count on the machine's refs.
template <class K, class S>
RunResult dry_of(const K& kernel, const S& spec, Plan plan, StepContext& context,
                 const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  RunResult result;
  try {
    try {
      result = dry_run(kernel, spec, plan, context, options);
    } catch (const NeedsMachine&) {
      count_scratch(plan);
      result = dry_run(kernel, spec, plan, context, options);
    }
  } catch (const ValueNeeded&) {
    fail_value_needed(plan);
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}
/// What the steps of a run that went well use; empty if its body decides by values.
template <class K, class S>
StepTrace trace_of(const K& kernel, const S& spec, const Plan& plan, StepContext& context,
                   const RunOptions& options) {
  RunOptions counting = options;
  counting.progress = nullptr;
  try {
    return dry_of(kernel, spec, plan, context, counting).trace;
  } catch (const KernelError&) {
    StepTrace none;
    none.most = options.trace_steps;
    return none;
  }
}
}  // namespace detail

template <class K>
RunResult run(const K& kernel, Tiles tiles, const Inputs& inputs, const RunOptions& options = {}) {
  const auto spec = spec_of(kernel, tiles);
  using Spec = std::remove_const_t<decltype(spec)>;
  Plan plan = plan_of(K::info.name, spec, options.device);
  StepContext context{&plan, nullptr, options.who.empty() ? plan.kernel : options.who,
                      options.command};
  step_context = &context;
  RunResult result;
  try {
    finish_plan(plan);
    if (options.dry) {
      result = detail::dry_of(kernel, spec, std::move(plan), context, options);
      step_context = nullptr;
      return result;
    }
    const Plan counted = options.trace_steps > 0 ? plan : Plan();
    detail::RunDriver driver(std::move(plan), inputs, options);
    context.plan = &driver.plan();
    const std::int64_t cells = cell_count(spec.grid);
    result = driver.execute(cells, [&](CoreIo& io) -> std::unique_ptr<CoreBase> {
      return std::make_unique<Core<K, Spec>>(kernel, spec, driver.plan(), io);
    });
    if (options.trace_steps > 0 && result.ok())
      result.trace = detail::trace_of(kernel, spec, counted, context, options);
  } catch (const KernelError& error) {
    // Only what precedes the first step lands here: the plan.
    result.plan = std::move(plan);
    result.diagnostics.push_back(error.diagnostic);
  } catch (...) {
    step_context = nullptr;
    throw;
  }
  step_context = nullptr;
  return result;
}

}  // namespace tessera
