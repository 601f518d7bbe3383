// One run, as it is printed and as it is written to --json (schema tessera.run/1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory_model/device_spec.hpp"
#include "memory_model/ledger.hpp"
#include "memory_model/space.hpp"
#include "predict/timeline.hpp"
#include "predict/tpu_schedule.hpp"
#include "report/line_costs.hpp"
#include "sim/body/kernel.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/pipeline/run.hpp"

namespace tessera::report {

struct ValidationLine {
  std::string reference;
  bool passed = false;
  double max_abs_err = 0;
  double max_rel_err = 0;
  std::int64_t max_ulp = 0;
  double worst_of_bound = 0;
};

/// A run that was not interpreted: its bytes are the kernel's closed form, not counted.
struct Elsewhere {
  std::string where;            ///< the GPU
  std::string launch;           ///< what was launched there
  bool tensor_cores = false;    ///< products by tensor cores: their roundings, not the exact ones
  std::vector<double> seconds;  ///< of each timed run
  std::optional<Bytes> closed_form;
};

/// What one line of a kernel asked of one array.
struct LineTraffic {
  std::string file;
  int line = 0;
  int column = 0;
  std::string ref;
  std::int64_t times = 0;
  std::int64_t read_bytes = 0;
  std::int64_t write_bytes = 0;
  /// Of a GPU's warps, and sectors of 32 bytes that they asked of the L1; 0: not asked for.
  std::int64_t requests = 0;
  std::int64_t sectors = 0;
  std::int64_t l2_sectors = 0;  ///< of those, what the L2 is asked for
};

/// Which tier chose the tiles, and what each that was asked said.
struct Choice {
  std::string tier;
  std::vector<std::pair<std::string, std::string>> said;
};

struct RunReport {
  std::string kernel;
  std::string frontend = "cpp";  ///< "mosaic" of a module, "triton"
  std::string case_name;         ///< "case 0 (aligned)", "" if sizes were given
  std::vector<std::pair<std::string, double>> sizes;
  std::vector<std::pair<std::string, int>> tiles;
  std::optional<Choice> choice;  ///< with --tuned
  DType dtype = DType::f32;
  DeviceSpec device;
  std::string backend_requested = "auto";
  std::string backend_ran = "interpret";
  std::string backend_why;
  std::optional<Elsewhere> elsewhere;  ///< if it ran elsewhere than in the interpreter
  bool dry = false;                    ///< counted alone
  std::string no_work;                 ///< why flops are not known; empty: they are
  Profile profile = Profile::exact;
  int threads = 1;
  std::vector<int> mesh = {1};
  int cores = 1;         ///< of a device
  std::string schedule;  ///< of the asynchronous machine, "" if it was not used
  int schedules = 0;     ///< how many were run
  std::vector<int> grid;
  std::int64_t steps = 0;
  std::vector<std::int64_t> undefined;  ///< elements of each output that hold no value
  Ledger ledger;
  std::vector<LineCost> costs;     ///< of lines, where there is a timeline
  std::vector<LineTraffic> lines;  ///< of front ends whose loads and stores have lines
  std::vector<Allocation> allocations;
  std::int64_t vmem_capacity = 0;  ///< what the kernel may take
  std::string vmem_in_doubt;       ///< why it may not compile; "" if it fits
  std::int64_t flops = 0;
  std::int64_t transcendentals = 0;
  Scopes scopes;
  std::optional<predict::Timeline> timeline;  ///< what the device would take for it
  std::optional<predict::TpuSchedule>
      compiled;             ///< what the timeline is from, with --timing compiler
  std::string compiled_by;  ///< the compiler's version
  std::optional<ValidationLine> validation;
  std::string validated;  ///< of a module: what its results were compared with, and how it went
  std::vector<Diagnostic> diagnostics;
  std::vector<std::string> notes;   ///< RunResult::notes
  std::vector<std::string> advice;  ///< changes that are predicted to be worth it, the best first
  double seconds = 0;
};

/// What a run says of itself; the kernel's name and parameters are left to the caller.
RunReport report_of(const RunResult& result, const RunOptions& options);

/// What the device would take, where the run kept a trace of its steps; `most_spans` of it are
/// kept. `compiled`: what nvcc made of it, if somebody asked.
void add_timeline(RunReport& report, const RunResult& result, std::size_t most_spans,
                  std::optional<predict::CompiledKernel> compiled = {});

/// What each device spends, if the work is even and every rate were reached: which limit binds.
/// Bytes are the ledger's; those of DRAM where a timeline knows them.
struct Roofline {
  double intensity = 0;       ///< flops per byte of HBM traffic
  double ridge = 0;           ///< intensity at which compute and bandwidth bind alike; 0 if unknown
  double memory_seconds = 0;  ///< of the padded bytes
  double compute_seconds = 0;  ///< 0 if the spec has no peak for the type
};
Roofline roofline(const RunReport& report);

/// What runs are ranked by: the predicted time; where there is none, that of the bytes at the full
/// rate.
double rank_seconds(const RunReport& report);

/// "blocks of x", "signals": what a stall waits for.
std::string waited_for(const Ledger& ledger, const predict::Stall& stall);

/// Those of all lines that wait for the same ref, for the same reason; the longest first.
std::vector<predict::Stall> by_cause(const std::vector<predict::Stall>& stalls);

/// "8.65 ms".
std::string duration(double seconds);

/// The report for people, ending in a newline.
std::string text_of(const RunReport& report);
/// The report for programs: tessera.run/1.
std::string json_of(const RunReport& report);

}  // namespace tessera::report
