// A kernel's tiles by the tiers of tuning/: what `run --tuned`, `tune` and `why` ask.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "report/run_report.hpp"
#include "tuning/configurations.hpp"

namespace tessera::cli {

/// A kernel's request without what it says of tiles, and of a backend: what predictions are for.
class TunedKernel {
 public:
  /// Tiles may have several values, as sweep takes them. `timing`: as --timing has it. Throws
  /// InputError.
  TunedKernel(const KernelHandle& kernel, Request request, const std::string& timing = "model");

  const KernelHandle& kernel() const { return kernel_; }
  /// Sizes alone are assigned.
  const Request& request() const { return request_; }
  const tuning::Key& key() const { return key_; }
  /// What candidates are ranked by: "units of a v5e core, ..."; "" of a GPU's model.
  const std::string& model() const { return model_; }
  /// Why that is published rates and no better model; "" otherwise.
  const std::string& why_model() const { return why_model_; }
  /// Candidates are timed by units (cli/timing.hpp): published rates say then which need be. The
  /// key of what these say; none: they, or a GPU's model, are all there is.
  const std::optional<tuning::Key>& rates_key() const { return rates_key_; }
  /// "matmul bf16 m=8192 n=8192 k=8192 on tpu-v5e".
  std::string title() const;

  /// What the command line says of tiles.
  const tuning::Configuration& given() const { return given_; }
  /// The tiles of its case.
  const tuning::Configuration& fallback() const { return fallback_; }
  /// Why the kernel cannot have these tiles at these sizes, or does not compile with them; "" if it
  /// does.
  std::string why_not(const tuning::Configuration& tiles) const;

  /// What there is to choose from: of each tile the values given; else powers of two and their
  /// halves more, around its case's and up to the sizes. Those that move least bytes come first.
  std::vector<tuning::Configuration> candidates() const;

  /// The request with these tiles.
  Request with(const tuning::Configuration& tiles) const;

 private:
  const KernelHandle& kernel_;
  Request request_;
  tuning::Configuration given_;
  tuning::Configuration fallback_;
  std::vector<std::string> follows_;  ///< of each tile the size that it equals unless given, or ""
  double largest_ = 1;                ///< of the sizes
  tuning::Key key_;
  std::optional<tuning::Key> rates_key_;
  std::string model_;
  std::string why_model_;
};

/// What a call of autotune() did.
struct Tuned {
  std::optional<tuning::Entry> entry;  ///< none: no candidate runs
  std::size_t candidates = 0;
  std::size_t known = 0;  ///< of these, from before
  std::size_t refused = 0;
  std::size_t left = 0;  ///< when the budget ended
  /// Of those that units would time: published rates say more than another takes.
  std::size_t slower = 0;
  /// Those of the candidates that run and are known now, the fastest first.
  std::vector<tuning::Evaluated> ranked;
};
/// Evaluates candidates on host threads (where units time them, first by published rates, which say
/// the least that each can take, then those that may be the fastest) and keeps each in the store as
/// it is done, so that what ends before its time is gone on with. `budget`: seconds; 0: as long as
/// it takes. Under mpirun each of `ranks` evaluates its share and keeps it in its store; all call
/// it. Rank 0's store then has all of them, and it alone chooses: others get no entry.
Tuned autotune(const TunedKernel& tuned, tuning::Store& store, double budget, int threads,
               Transport* ranks = nullptr);

/// The cache that the arguments name.
std::string store_of(const RunArguments& arguments);
/// What knows more than the model: its choices come before those that are predicted.
struct Judge {
  tuning::Key key;
  std::function<std::optional<tuning::Entry>(tuning::Store& store)> tune;
};
/// The tiers' answer to a command line. Throws InputError.
tuning::Answer resolve(const TunedKernel& tuned, const RunArguments& arguments,
                       const std::optional<Judge>& judge);
/// The same as a run's report has it.
report::Choice choice_of(const tuning::Answer& answer);

}  // namespace tessera::cli
