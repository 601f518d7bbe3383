// Tiles by measured time: the candidates that the model ranks first are compiled and timed in
// turns, until one is the fastest with 95 % confidence (tuning/race.hpp).
//
// What was measured is kept under a key of its own: the GPU's name and driver, tessera's version,
// and a hash of what the kernel is compiled of. A candidate is kept when the race is done with it,
// what was compiled lies in a cache of its own: what ends before its time is gone on with. A kernel
// on a mesh is not measured. Times are of calls on end, on the same arrays: with warm caches.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/tuned.hpp"
#include "tuning/race.hpp"

namespace tessera::cli {

/// What times candidates: a GPU (cli/gpu_bench.hpp), or a test's clocks.
class Bench {
 public:
  Bench() = default;
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  virtual ~Bench() = default;

  /// Why a candidate cannot be compiled, without an attempt; "" if it can.
  virtual std::string why_not(const tuning::Configuration& tiles) const = 0;
  /// Called by several threads at once. Throws InputError.
  virtual void compile(const tuning::Configuration& tiles) = 0;
  /// Makes one that was compiled ready to be timed. Throws CudaError, InputError.
  virtual void place(const tuning::Configuration& tiles) = 0;
  /// Seconds of a run of the candidate that was placed as number i. Throws CudaError.
  virtual double time(std::size_t i) = 0;
  /// Seconds that its clock may be off by.
  virtual double resolution() const = 0;
};

struct MeasureOptions {
  std::size_t candidates = 8;  ///< to time or compile, and the case's tiles; 0: all
  double budget = 0;           ///< seconds for everything; 0: as long as it takes
  int rounds = 0;              ///< of every candidate; 0: until the best is known
  int threads = 1;             ///< that count, and compile
};

/// What a call of measure() did.
struct Measured {
  Tuned predicted;
  std::optional<tuning::Entry> entry;  ///< none: no candidate was timed
  std::size_t picked = 0;              ///< of the candidates that were predicted
  std::size_t known = 0;               ///< of these, from before
  std::size_t left = 0;                ///< not compiled when the budget ended
  std::vector<std::pair<tuning::Configuration, std::string>> failed = {};  ///< and why
  double compile_seconds = 0;
  double race_seconds = 0;
  tuning::RaceResult race = {};  ///< rounds: 0 if there was none
};
Measured measure(const TunedKernel& tuned, const tuning::Key& key, Bench& bench,
                 tuning::Store& store, const MeasureOptions& options);

/// What the command line says of it, and of compiling (cli/scheduled.hpp). Throws InputError, also
/// where it says so and nothing is measured.
MeasureOptions measure_options(const RunArguments& arguments);

}  // namespace tessera::cli
