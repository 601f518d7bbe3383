// Tiles by what the device's compiler makes of them: the candidates that the model ranks first are
// compiled, and ranked by what a TPU's schedules take (predict/tpu_schedule.hpp), or a GPU's code
// (cli/cuda_timing.hpp).
//
// No device is needed, and nothing is measured: a schedule is exact about bundles, and waits for
// HBM as the model of HBM has it; code says its registers. Each candidate is kept as it is done,
// under a key of its own: the compiler's version, tessera's, and a hash of the modules of the
// kernel's TPU build. What is ended before its time is gone on with. What the compiler refuses is
// kept as such, and is never chosen.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/measured.hpp"
#include "cli/tuned.hpp"

namespace tessera::cli {

/// What compiles candidates: libtpu (cli/compiled_candidates.hpp), nvcc (cli/nvcc_candidates.hpp),
/// or a test's.
class Scheduler {
 public:
  struct Schedule {
    double seconds = 0;
    std::string binds;
    std::string why_not;  ///< why there is none, "slug: sentence"; "": there is
    bool lasting = true;  ///< whether it would be so another time
  };

  Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  virtual ~Scheduler() = default;

  /// "libtpu 0.0.42.1, jax 0.10.2".
  virtual std::string version() const = 0;
  /// A hash of what is compiled.
  virtual std::string build() const = 0;
  /// Of its choice.
  virtual std::string how() const { return "by the compiler's schedule"; }
  /// Called by several threads at once. Throws InputError where nothing can be compiled.
  virtual Schedule schedule(const tuning::Configuration& tiles) = 0;
};

/// The key of what a compiler's schedules say.
tuning::Key scheduled_key(const TunedKernel& tuned, const Scheduler& scheduler);

/// What a call of tune_by_schedule() did.
struct Scheduled {
  Tuned predicted;
  std::optional<tuning::Entry> entry;  ///< none: the compiler takes no candidate
  std::size_t picked = 0;              ///< of the candidates that were predicted
  std::size_t known = 0;               ///< of these, from before
  std::size_t left = 0;                ///< not compiled when the budget ended
  /// Those picked that have no schedule, and why.
  std::vector<std::pair<tuning::Configuration, std::string>> failed = {};
  double seconds = 0;  ///< of compiling
};
/// Takes the case's tiles, and goes down the ranking till so many others have a schedule (three
/// times so many are tried); several are compiled at once. Of a budget a quarter is for predicting.
Scheduled tune_by_schedule(const TunedKernel& tuned, Scheduler& scheduler, tuning::Store& store,
                           const MeasureOptions& options);

/// Why a kernel's candidates are predicted alone on a device; "" if they can be compiled.
std::string why_not_scheduled(const TunedKernel& tuned);
/// None unless --timing compiler is asked for. Throws InputError where there is no compiler, or
/// why_not_scheduled() says why.
std::unique_ptr<Scheduler> scheduler_of(const TunedKernel& tuned, const RunArguments& arguments);
/// The same, for the tiers; all must outlive it. None without a scheduler.
std::optional<Judge> judge_of(Scheduler* scheduler, const TunedKernel& tuned,
                              const RunArguments& arguments);

}  // namespace tessera::cli
