// The commands behind the command line; each returns an exit code and throws InputError.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "cli/registry.hpp"
#include "report/run_report.hpp"

namespace tessera::cli {

struct RunArguments {
  std::string kernel;
  std::vector<std::string> assignments;
  std::string device = "tpu-v5e";
  bool device_given = false;  ///< else a recorded call's own
  std::string dtype = "f32";
  std::vector<std::string> inputs;
  std::string output;
  std::string json;
  std::string report;  ///< file of an HTML page
  std::string trace;   ///< file of a Perfetto trace
  std::string at;
  std::string trap;
  std::string profile = "exact";
  std::uint64_t seed = 0;
  int case_index = 0;
  int threads = 0;
  std::string mesh;  ///< "8", "2x4"
  int cores = 1;
  std::string schedule;  ///< "random:7"; the machine's default if empty
  bool no_races = false;
  bool keep_going = false;  ///< find all that is wrong
  bool break_at = false;
  bool no_check = false;
  bool dry = false;
  bool steps = false;  ///< of a module: as it is planned
  bool units = false;  ///< of a module: what it asks of a TPU core's units
  bool timeline = false;
  /// "units": of a TPU build; "compiler": by its compiler's schedule; "best": units of a kernel
  /// where they are known, else the model.
  std::string timing = "best";
  std::string python;  ///< that has the compiler
  std::string backend = "auto";
  int rounds = 0;
  double time_limit = 0;  ///< seconds; 0: none
  bool oversubscribe = false;
  std::string input_kind = "uniform";
  std::string reference;              ///< of a module: FILE.py:FUNCTION in f64
  bool tuned = false;                 ///< tiles are those that the tiers choose
  std::vector<std::string> overlays;  ///< files of tessera.tuning/1, the innermost last
  std::string cache;                  ///< the persistent cache's file; the user's if empty
  double budget = 0;                  ///< seconds of autotuning; 0: none
  std::string candidates;             ///< that tune measures: how many, or "all"
  std::string record;                 ///< a folder that has a line of each run (record/folder.hpp)
};

/// What `tessera replay` is told besides.
struct ReplayArguments {
  std::string folder;
  int only = -1;  ///< one of them, counted from 0; -1: all
  bool other_backend = false;
  bool other_profile = false;
};

/// What `tessera tune` is told besides.
struct TuneArguments {
  std::string exported;  ///< a file to write the choices to
  std::string imported;  ///< a file to take choices from
};

/// What `tessera golden` is told besides.
struct GoldenArguments {
  std::string folder;   ///< of the golden
  std::string outputs;  ///< of another build: its .npy files, or its steps
  std::string backend;  ///< to run on the golden's inputs
  std::string accumulate = "f32";
  std::string operands = "as given";
  std::vector<std::string> ulps;  ///< op=ulps
  bool not_fused = false;
  bool other_blocks = false;
};

/// What `tessera build` is told besides.
struct BuildArguments {
  std::string target;      ///< "tpu"
  std::string folder;      ///< to make
  bool not_fused = false;  ///< fma() as a product and a sum
};

/// What `tessera check` is told.
struct CheckArguments {
  std::vector<std::string> subjects;  ///< modules, folders of calls or of such folders; a kernel
  RunArguments kernel;                ///< how it is to be built
  std::string devices = "tpu-v4,tpu-v5e,tpu-v5p,tpu-v6e,tpu-v7x";
  std::string python;
  double time_limit = 120;  ///< seconds for a module
  bool own = false;         ///< tessera's own rules alone
  bool brief = false;       ///< verdicts alone
  bool schedule = false;    ///< play the compiler's schedules too
  std::string json;
};

/// The exit code of a run.
int exit_code(const std::vector<Diagnostic>& diagnostics);
/// What a run is watched for: --trap, and the step of --at.
class Watch {
 public:
  /// `rank`: of the grid. Throws InputError.
  Watch(const RunArguments& arguments, std::size_t rank, RunOptions& options);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// Throws InputError if a run that went well had no such step.
  void check(const RunResult& result) const;

 private:
  std::string at_;
  bool reached_ = false;
};
/// With --break: starts this very command under gdb, unless it is there. Throws InputError.
void stop_in_debugger(const RunArguments& arguments);
/// What the arguments say of the machine.
RunOptions run_options(const RunArguments& arguments);
/// Throws InputError unless --output and --json can be written.
void check_destinations(const RunArguments& arguments);

/// Where a run's text goes: standard output, or standard error where that has --json -.
std::FILE* prose_of(const RunArguments& arguments);

/// Spans of a timeline that --trace or --report draw.
std::size_t spans_of(const RunArguments& arguments);
/// Writes --json, --report and --trace.
void write_reports(const RunArguments& arguments, const report::RunReport& report,
                   const RunResult& result);

/// Runs a kernel with error bounds and writes a golden.
int golden_make_command(const Kernels& kernels, const RunArguments& arguments,
                        const GoldenArguments& golden);
/// Another build's outputs, from files or from a backend, against a golden.
int golden_check_command(const Kernels& kernels, const RunArguments& arguments,
                         const GoldenArguments& golden);
/// The first grid step at which the other side's blocks differ.
int golden_bisect_command(const Kernels& kernels, const RunArguments& arguments,
                          const GoldenArguments& golden);

/// The goldens of a kernel that a library checks in.
int bless_command(const Kernels& kernels, const RunArguments& arguments,
                  const GoldenArguments& golden);

int run_command(const Kernels& kernels, const RunArguments& arguments);
/// Runs what was recorded again, and says what is otherwise.
int replay_command(const Kernels& kernels, const RunArguments& arguments,
                   const ReplayArguments& replay);
/// What a module makes, beside what a naive function of Python makes of its operands in f64, by
/// bounds.
int reference_command(const RunArguments& arguments);
/// Evaluates a kernel's block shapes and keeps the choice in the persistent cache.
int tune_command(const Kernels& kernels, const RunArguments& arguments, const TuneArguments& tune);
/// Which tier chooses, and among what.
int why_command(const Kernels& kernels, const RunArguments& arguments);
/// The platforms that have a kernel, or all of them, and which would serve.
int registry_command(const Kernels& kernels, const RunArguments& arguments);
/// What changed between two reports (tessera.run/1).
int compare_reports(const std::string& first, const std::string& second);
/// Every combination of the values given, counted. `csv`: a file, "-" or "".
int sweep_command(const Kernels& kernels, const RunArguments& arguments, const std::string& csv);
/// What binds a run, and the block shapes next to it.
int advise_command(const Kernels& kernels, const RunArguments& arguments);
/// Every case of a kernel on two backends, bit by bit.
int compare_command(const Kernels& kernels, const RunArguments& arguments);
int list_command(const Kernels& kernels, bool markdown);
int show_command(const Kernels& kernels, const RunArguments& arguments);
int devices_command(const std::string& name);
int ops_command(bool markdown);
/// A kernel for another machine, in a folder.
int build_command(const Kernels& kernels, const RunArguments& arguments,
                  const BuildArguments& build);
int new_command(const std::string& name, const std::string& folder);

/// A spec by name or file; throws InputError[unknown-device].
DeviceSpec find_device(const std::string& name);
/// name=value pairs; throws InputError.
std::vector<std::pair<std::string, std::string>> split_assignments(
    const std::vector<std::string>& words, const char* what);
Request request_of(const KernelHandle& kernel, const RunArguments& arguments);
/// The words of `tessera run`, taken apart. Throws InputError.
RunArguments run_arguments(const std::vector<std::string>& words);
/// A run's report, but for what its time is predicted from.
report::RunReport report_of(const KernelHandle& kernel, const Request& request,
                            const Outcome& outcome);

}  // namespace tessera::cli
