// Everything about a run: arrays, threads or the machine, schedules, ranks, and the checks that
// need the whole run.
#pragma once

#include "sim/diagnostics/findings.hpp"
#include "sim/pipeline/pipeline.hpp"
#include "sim/pipeline/run.hpp"

namespace tessera {

class RunDriver {
 public:
  RunDriver(const Kernel& kernel, Plan plan, const Inputs& inputs, const RunOptions& options);
  RunDriver(const RunDriver&) = delete;
  RunDriver& operator=(const RunDriver&) = delete;

  /// Runs every cell, then the checks that need the whole run.
  RunResult execute();

  const Plan& plan() const { return plan_; }

 private:
  bool reached() const;
  bool run_parallel(int threads, RunResult& result);
  void run_serial(RunResult& result);
  Diagnostic describe_missing(const OperandPlan& op, const Missing& missing) const;
  void run_on_machine(RunResult& result);
  std::uint64_t run_schedule(const Schedule& schedule, RunResult& result);
  void make_arrays(Machine& machine);
  void collect_arrays();
  void merge_ranks(RunResult& result);
  /// True if this process has the device.
  bool here(int device) const;
  void begin(RunResult& result);
  void reset();
  void collect(const CoreTotals& core, int device, RunResult& result);
  void finish(RunResult& result);
  void fail(const KernelError& error, RunResult& result);
  std::vector<Array> outputs_with(const Plan& plan, std::string& ended) const;
  std::vector<Array> outputs_on_machine_with(const Plan& plan, const Schedule& schedule,
                                             std::string& ended) const;
  /// `schedule`: of a kernel that copies or meets devices.
  std::optional<Diagnostic> dependence_beyond(const Schedule* schedule) const;

  const Kernel& kernel_;
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
  StepContext context_;               ///< of all cores
  Findings findings_;                 ///< with RunOptions::keep_going
  bool ended_ = false;                ///< before its last step
  std::vector<std::int64_t> beyond_;  ///< CoreTotals::beyond of all
  // On the machine: of one schedule.
  std::vector<Array> scratch_;
  std::vector<std::unique_ptr<Buffer>> arrays_;
};

}  // namespace tessera
