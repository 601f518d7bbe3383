// What runs the programs of a launch: registers, where they are, what they printed and counted.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/numerics/op_state.hpp"
#include "triton/launch.hpp"

namespace tessera::triton {

/// A launch under way.
struct Running {
  const Launch& launch;
  const RunOptions& options;
  const Plan& plan;
  std::int64_t programs = 1;
  std::vector<std::int64_t> bases = {};  ///< per argument: the address of its storage
};

/// A thread's part of a launch: what its ops count and obey, where it is.
class ThreadScope {
 public:
  explicit ThreadScope(const RunOptions& options) : before_(op_state), outer_(step_context) {
    op_state = {};
    op_state.profile = options.profile;
    op_state.trap_nan = options.trap_nan;
    op_state.error_model = options.error_model ? &*options.error_model : nullptr;
  }
  ~ThreadScope() {
    op_state = before_;
    step_context = outer_;
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;
  static void count(LaunchResult& result) {
    result.run.flops += op_state.flops;
    result.run.transcendentals += op_state.transcendentals;
  }

 private:
  OpState before_;
  const StepContext* outer_;
};

/// Runs one program after the other, in a ThreadScope.
class Worker {
 public:
  Worker(const Running& of, Memory& memory);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run(std::int64_t program);
  /// Diagnostics of this thread are of its program from here on.
  void take_over() { step_context = &context_; }
  /// Of a launch that is over: of no program.
  void leave_programs() { context_.ids = nullptr; }
  /// Adds what it counted.
  void count(std::vector<Requested>& requested) const;

  /// Null: not asked for.
  const Footprint* footprint() const { return instance_.footprint; }

  std::string printed;
  Instance& instance() { return instance_; }
  const std::array<int, 3>& ids() const { return ids_; }

 private:
  const Running& of_;
  std::array<int, 3> ids_{};
  std::vector<std::int64_t> bounds_;
  StepContext context_;
  Footprint footprint_;
  Instance instance_;
};

}  // namespace tessera::triton
