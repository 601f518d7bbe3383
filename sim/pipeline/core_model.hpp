// A model of a TPU core's time, as a plan carries it: what turns counted cycles (CoreUse) into
// time, and how far it was from the compiler's schedules.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "memory_model/here.hpp"
#include "sim/numerics/core_use.hpp"

namespace tessera {

/// What a line of a module takes each time that a step of its code runs.
struct CoreLine {
  std::size_t step = 0;  ///< the first of a stretch of code: index into StepTrace::ran
  Here at;               ///< the file's name is the program's
  double cycles = 0;
};

struct CoreModel {
  std::string name;  ///< "the units of v5e, ..."; empty: there is none
  double clock_hz = 0;
  std::array<double, kCoreUnits> capacity{};  ///< slots of each unit in a cycle
  std::int64_t launch_cycles = 0;             ///< before the first step and behind the last
  std::int64_t step_cycles = 0;               ///< of the pipeline, each step
  /// By operand: its window has one place. The first step asks for it; others are asked for a step
  /// ahead.
  std::vector<bool> stays;
  /// Nine in ten kernels that it was not fitted to took between `least` and `most` times the
  /// predicted cycles.
  double least = 1;
  double most = 1;
  /// And whole runs between these times what follows from that, which says nothing of waits.
  double least_whole = 1;
  double most_whole = 1;
  /// A stretch's cycles, divided among its lines: what each adds to the sum over units, and to the
  /// longest chain.
  std::vector<CoreLine> lines;
  std::string unmeasured;  ///< ops whose cost nobody measured, in words; may be empty

  explicit operator bool() const { return !name.empty(); }
};

}  // namespace tessera
