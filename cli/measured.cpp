#include "cli/measured.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <mutex>

#include "cli/budget.hpp"
#include "cli/points.hpp"
#include "cli/progress.hpp"
#include "cli/signals.hpp"
#include "report/run_report.hpp"

namespace tessera::cli {

namespace {

using tuning::Configuration;

/// Of the budget, to predict in, and to predict and compile in: the rest is for the race.
constexpr double kPredicting = 0.25;
constexpr double kCompiling = 0.75;

/// Those to time: the first of the ranking that compile, and the default.
std::vector<Configuration> picked(const TunedKernel& tuned, const tuning::Key& key,
                                  const Bench& bench, tuning::Store& store, const Tuned& predicted,
                                  std::size_t most) {
  std::vector<Configuration> tiles;
  const auto compiles = [&](const tuning::Evaluated& e) {
    const std::string why = bench.why_not(e.configuration);
    if (!why.empty()) store.keep(key, {e.configuration, 0, e.binds, why});
    return why.empty();
  };
  for (const tuning::Evaluated& e : predicted.ranked) {
    const bool is_default = tuned.given().empty() && e.configuration == tuned.fallback();
    if (most > 0 && tiles.size() >= most && !is_default) continue;
    if (compiles(e)) tiles.push_back(e.configuration);
  }
  return tiles;
}

/// Compiles on several threads; what does not compile goes from `tiles` to `m.failed`.
void compile_all(std::vector<Configuration>& tiles, Bench& bench, const Budget& budget, int threads,
                 Measured& m) {
  Progress progress("compiling");
  const double start = budget.spent();
  std::vector<Configuration> compiled;
  std::size_t done = 0;
  const std::size_t all = tiles.size();
  std::exception_ptr broken;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::size_t i = 0; i < all; ++i) {
    std::string why;
    bool ready = false;
    // The first two are compiled whatever the budget: there is a race then.
    const bool goes_on = stop_flag() == Stop::none && (i < 2 || !budget.past(kCompiling));
    try {
      if (goes_on) bench.compile(tiles[i]);
      ready = goes_on;
    } catch (const InputError& error) {
      why = error.what();
    } catch (...) {
#pragma omp critical(tessera_measured)
      broken = std::current_exception();
    }
#pragma omp critical(tessera_measured)
    {
      ++done;
      if (ready) compiled.push_back(tiles[i]);
      if (!why.empty()) m.failed.emplace_back(tiles[i], why);
      if (!goes_on) ++m.left;
      const double each = (budget.spent() - start) / static_cast<double>(done);
      progress.show(static_cast<double>(done) / static_cast<double>(all),
                    fmt::format("{} of {}, {} left", done, all,
                                report::duration(each * static_cast<double>(all - done))));
    }
  }
  if (broken) std::rethrow_exception(broken);
  m.compile_seconds = budget.spent() - start;
  // In the order of the ranking, whichever was compiled first.
  std::erase_if(tiles, [&](const Configuration& c) {
    return std::ranges::find(compiled, c) == compiled.end();
  });
}

/// Of those that were measured before, the fastest, and after it those that may be as fast.
std::vector<tuning::Evaluated> defenders(const std::vector<tuning::Evaluated>& known) {
  std::vector<tuning::Evaluated> all;
  for (const tuning::Evaluated& e : known) {
    const bool may_be =
        all.empty() || e.seconds - e.interval <= all.front().seconds + all.front().interval;
    if (e.runs() && may_be) all.push_back(e);
  }
  return all;
}

/// "measured, with 95 % confidence".
std::string how(const tuning::RaceResult& race) {
  if (!race.known) return fmt::format("measured in {} rounds", race.rounds);
  if (race.within == 0) return "measured, with 95 % confidence";
  constexpr double kNothing = 0.5;  // of which to speak
  if (race.within > kNothing) return fmt::format("measured in {} rounds", race.rounds);
  return fmt::format("measured, to within {:.2g} % with 95 % confidence", 100 * race.within);
}

class Timed {
 public:
  Timed(const TunedKernel& tuned, const tuning::Key& key, Bench& bench, tuning::Store& store,
        const Tuned& predicted)
      : tuned_(tuned), key_(key), bench_(bench), store_(store) {
    for (const tuning::Evaluated& e : predicted.ranked)
      binds_.emplace_back(e.configuration, e.binds);
  }

  /// Times what was compiled: candidates, and those of before that defend their place.
  void run(const std::vector<Configuration>& tiles, const MeasureOptions& options,
           const Budget& budget, Measured& m) {
    const std::vector<tuning::Evaluated> before = store_.candidates(key_);
    for (const Configuration& c : tiles) place(c, m);
    const auto is_new = [&](const Configuration& c) {
      return std::ranges::find(before, c, &tuning::Evaluated::configuration) == before.end();
    };
    if (std::ranges::none_of(placed_, is_new)) return;
    const double start = budget.spent();
    m.race = race(options, budget);
    m.race_seconds = budget.spent() - start;
    if (m.race.rounds < 2) return;
    for (std::size_t i = 0; i < placed_.size(); ++i) keep(i, m.race.standings[i]);
    // The others of before were timed when clocks may have been others: as the fastest does now.
    const auto champion =
        std::ranges::find(placed_, before.empty() ? Configuration{} : before.front().configuration);
    if (champion == placed_.end()) return;
    const auto at = static_cast<std::size_t>(champion - placed_.begin());
    const double factor = m.race.standings[at].seconds / before.front().seconds;
    for (const tuning::Evaluated& e : before) {
      if (!e.runs() || std::ranges::find(placed_, e.configuration) != placed_.end()) continue;
      store_.keep(key_, {e.configuration, e.seconds * factor, e.binds, "", e.interval * factor});
    }
  }

 private:
  void place(const Configuration& tiles, Measured& m) {
    try {
      bench_.place(tiles);
      placed_.push_back(tiles);
    } catch (const cuda::HungKernel&) {
      throw;
    } catch (const cuda::CudaError& error) {
      m.failed.emplace_back(tiles, error.what());
    } catch (const InputError& error) {
      m.failed.emplace_back(tiles, error.what());
    }
  }
  void keep(std::size_t i, const tuning::Standing& s) const {
    const auto binds =
        std::ranges::find(binds_, placed_[i], &std::pair<Configuration, std::string>::first);
    store_.keep(
        key_, {placed_[i], s.seconds, binds == binds_.end() ? "" : binds->second, "", s.interval});
  }
  tuning::RaceResult race(const MeasureOptions& options, const Budget& budget) const {
    Progress progress("timing " + tuned_.key().operation);
    tuning::RaceOptions o;
    o.resolution = bench_.resolution();
    if (options.rounds > 0) {
      o.first_look = std::max(2, options.rounds);
      o.most_rounds = o.first_look;
    }
    o.goes_on = [&](int round, std::size_t in) {
      const double rounds = static_cast<double>(round) / o.most_rounds;
      const double spent = budget.seconds() > 0 ? budget.spent() / budget.seconds() : 0;
      progress.show(std::max(rounds, std::min(spent, 1.)),
                    fmt::format("round {}, {} of {} are in", round + 1, in, placed_.size()));
      return stop_flag() == Stop::none && (round < o.first_look || !budget.past(1));
    };
    return tuning::race(
        placed_.size(), [this](std::size_t i) { return bench_.time(i); }, o,
        [this](std::size_t i, const tuning::Standing& s) { keep(i, s); });
  }

  const TunedKernel& tuned_;
  const tuning::Key& key_;
  Bench& bench_;
  tuning::Store& store_;
  std::vector<std::pair<Configuration, std::string>> binds_;
  std::vector<Configuration> placed_;
};

}  // namespace

Measured measure(const TunedKernel& tuned, const tuning::Key& key, Bench& bench,
                 tuning::Store& store, const MeasureOptions& options) {
  const Budget budget(options.budget);
  Measured m;
  m.predicted = autotune(tuned, store, options.budget * kPredicting, options.threads);
  std::vector<Configuration> tiles =
      picked(tuned, key, bench, store, m.predicted, options.candidates);
  m.picked = tiles.size();
  std::erase_if(tiles, [&](const Configuration& c) { return store.candidate(key, c).has_value(); });
  m.known = m.picked - tiles.size();
  if (!tiles.empty()) {
    std::vector<Configuration> compiled;
    for (const tuning::Evaluated& e : defenders(store.candidates(key)))
      compiled.push_back(e.configuration);
    compiled.insert(compiled.end(), tiles.begin(), tiles.end());
    compile_all(compiled, bench, budget, options.threads, m);
    Timed(tuned, key, bench, store, m.predicted).run(compiled, options, budget, m);
  }
  if (m.race.rounds >= 2) {
    m.entry = store.choose(key, how(m.race));
    return m;
  }
  m.entry = store.find(key);
  if (m.entry && m.entry->key.sizes != key.sizes) m.entry.reset();  // the bucket's
  // All is known, and nobody has chosen: what measured it was ended in between.
  if (!m.entry && tiles.empty()) m.entry = store.choose(key, "measured");
  return m;
}

MeasureOptions measure_options(const RunArguments& a) {
  if (a.backend == "cuda" && a.timing == "compiler")
    throw InputError("bad-usage",
                     "--backend cuda times candidates, --timing compiler compiles them",
                     "one of them");
  if (a.backend != "cuda" && a.rounds > 0)
    throw InputError("bad-usage", "--rounds says how often candidates are timed",
                     "add --backend cuda");
  if (a.backend != "cuda" && a.timing != "compiler" && !a.candidates.empty())
    throw InputError("bad-usage", "--candidates says how many are timed or compiled",
                     "add --backend cuda, or --timing compiler");
  MeasureOptions options;
  options.budget = a.budget;
  options.rounds = a.rounds;
  options.threads = threads_of(a);
  if (a.candidates == "all") options.candidates = 0;
  if (a.candidates.empty() || a.candidates == "all") return options;
  const double many = parse_number("--candidates", a.candidates, false);
  if (many < 1) throw InputError("bad-input", "--candidates takes 1 or more, or all");
  options.candidates = static_cast<std::size_t>(many);
  return options;
}

}  // namespace tessera::cli
