// `tessera tune K sizes...`: the fastest block shape, kept in the persistent cache. `tessera why
// K`: which tier chooses, and among what.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "cli/command_line.hpp"
#include "cli/gpu_bench.hpp"
#include "cli/points.hpp"
#include "cli/ranks.hpp"
#include "cli/scheduled.hpp"
#include "cli/tuned.hpp"
#include "memory_model/file.hpp"
#include "memory_model/npy.hpp"
#include "report/run_report.hpp"

namespace tessera::cli {

namespace {

using tuning::text_of;

constexpr std::size_t kMostRows = 8;

std::string row(const tuning::Evaluated& e, std::size_t wide, double best, const char* note) {
  return fmt::format("  {:<{}}  {:>10}  {:>5.2f}x  {}{}\n", text_of(e.configuration), wide,
                     time_of(e.seconds), best > 0 ? e.seconds / best : 1., e.binds, note);
}

/// The fastest, the one chosen and the default.
std::string table(const std::vector<tuning::Evaluated>& all, const tuning::Configuration& chosen,
                  const tuning::Configuration& fallback) {
  std::string text;
  std::size_t wide = 0;
  for (const auto& e : all)
    if (e.runs()) wide = std::max(wide, text_of(e.configuration).size());
  for (std::size_t i = 0; i < all.size() && all[i].runs(); ++i) {
    const bool is_chosen = all[i].configuration == chosen;
    const bool is_default = all[i].configuration == fallback;
    if (i >= kMostRows && !is_chosen && !is_default) continue;
    text += row(all[i], wide, all.front().seconds,
                is_chosen    ? "  <- chosen"
                : is_default ? "  (the default)"
                             : "");
  }
  return text;
}

/// The same of what was judged ("measured", "compiled"), beside what was predicted.
std::string judged_table(const char* how, const std::vector<tuning::Evaluated>& judged,
                         const std::vector<tuning::Evaluated>& predicted,
                         const tuning::Configuration& chosen,
                         const tuning::Configuration& fallback) {
  std::size_t wide = std::string("  tiles").size();
  for (const auto& e : judged)
    if (e.runs()) wide = std::max(wide, text_of(e.configuration).size());
  const bool intervals =
      std::ranges::any_of(judged, [](const tuning::Evaluated& e) { return e.interval > 0; });
  std::string text = fmt::format("  {:<{}}  {:>10}  {}{:>6}  {:>10}\n", "tiles", wide, how,
                                 intervals ? fmt::format("{:>7}  ", "95 %") : "", "", "predicted");
  std::size_t rows = 0;
  for (const auto& e : judged) {
    const bool is_chosen = e.configuration == chosen;
    const bool is_default = e.configuration == fallback;
    if (!e.runs() || (rows++ >= kMostRows && !is_chosen && !is_default)) continue;
    const auto before =
        std::ranges::find(predicted, e.configuration, &tuning::Evaluated::configuration);
    const std::string interval =
        intervals ? fmt::format("{:>7}  ", fmt::format("±{:.2g} %", 100 * e.interval / e.seconds))
                  : "";
    text += fmt::format("  {:<{}}  {:>10}  {}{:>5.2f}x  {:>10}  {}{}\n", text_of(e.configuration),
                        wide, time_of(e.seconds), interval, e.seconds / judged.front().seconds,
                        before == predicted.end() ? "-" : time_of(before->seconds), e.binds,
                        is_chosen    ? "  <- chosen"
                        : is_default ? "  (the default)"
                                     : "");
  }
  return text;
}

/// Why the others cannot, the most frequent first.
std::string refusals(const std::vector<tuning::Evaluated>& all) {
  std::map<std::string, std::pair<int, const tuning::Evaluated*>> by_slug;
  for (const auto& e : all) {
    if (e.runs()) continue;
    auto& [count, first] = by_slug[e.reason.substr(0, e.reason.find(':'))];
    if (count++ == 0) first = &e;
  }
  std::vector<std::pair<int, const tuning::Evaluated*>> sorted;
  for (const auto& [slug, found] : by_slug) sorted.push_back(found);
  std::ranges::stable_sort(sorted, std::greater{}, [](const auto& s) { return s.first; });
  std::string text;
  for (const auto& [count, first] : sorted)
    text += fmt::format("  {} cannot, as {}: {}\n", count, text_of(first->configuration),
                        first->reason);
  return text;
}

/// What candidates are ranked by, where there is more than one way; ends in a newline.
std::string ranked_by(const TunedKernel& tuned) {
  if (tuned.model().empty()) return "";
  return fmt::format("  by {}{}\n", tuned.model(),
                     tuned.why_model().empty() ? "" : ": " + tuned.why_model());
}

RunArguments with_device(const RunArguments& a, const std::string& device) {
  RunArguments one = a;
  one.device = device;
  return one;
}

void check_tiles(const TunedKernel& tuned) {
  if (tuned.fallback().empty())
    throw InputError("bad-usage", tuned.key().operation + " has no tiles to choose",
                     "tessera show " + tuned.key().operation);
}

/// "matmul bf16 m=4096 n=4096 k=4096 on NVIDIA H200, driver 580.65.06".
std::string measured_title(const TunedKernel& tuned, const Gpu& gpu) {
  const tuning::Key& key = tuned.key();
  return fmt::format("{} {} {} on {}", key.operation, key.dtype, key.sizes, gpu.title());
}

/// Of a call of measure() or of tune_by_schedule().
template <class Done>
void say_what_is_left(const Done& done, const TunedKernel& tuned, tuning::Store& store,
                      std::FILE* prose) {
  if (done.predicted.ranked.empty())
    fmt::print(prose, "{}", refusals(store.candidates(tuned.key())));
  if (done.left + done.predicted.left > 0)
    fmt::print(prose,
               "{} are left to compile and {} to predict: the same command goes on where this one "
               "ended\n",
               done.left, done.predicted.left);
}

bool tune_on_gpu(const Gpu& gpu, const TunedKernel& tuned, const RunArguments& a,
                 tuning::Store& store, std::FILE* prose) {
  const Measured done = measure_on(gpu, tuned, store, a);
  fmt::print(
      prose, "{}: {} of {} candidates, the first as predicted for {}, {} known from before\n",
      measured_title(tuned, gpu), done.picked, done.predicted.candidates, gpu.spec, done.known);
  if (done.race.rounds > 0) {
    fmt::print(prose, "compiled in {}, timed in {}: {} rounds\n",
               report::duration(done.compile_seconds), report::duration(done.race_seconds),
               done.race.rounds);
  }
  if (done.entry) {
    fmt::print(prose, "{}",
               judged_table("measured", store.candidates(measured_key(tuned, gpu)),
                            done.predicted.ranked, done.entry->configuration, tuned.fallback()));
    fmt::print(prose, "{}: {}\n", text_of(done.entry->configuration), done.entry->how);
  }
  for (const auto& [tiles, why] : done.failed) fmt::print(prose, "  {}: {}\n", text_of(tiles), why);
  say_what_is_left(done, tuned, store, prose);
  return done.entry.has_value();
}

bool tune_by_compiler(const TunedKernel& tuned, const RunArguments& a, tuning::Store& store,
                      std::FILE* prose) {
  const std::unique_ptr<Scheduler> scheduler = scheduler_of(tuned, a);
  const Scheduled done = tune_by_schedule(tuned, *scheduler, store, measure_options(a));
  const tuning::Key key = scheduled_key(tuned, *scheduler);
  fmt::print(prose,
             "{}: {} of {} candidates, the first as predicted, {} known from before; by {} in {}\n",
             tuned.title(), done.picked, done.predicted.candidates, done.known,
             scheduler->version(), report::duration(done.seconds));
  if (done.entry) {
    fmt::print(prose, "{}{}: {}\n",
               judged_table("compiled", store.candidates(key), done.predicted.ranked,
                            done.entry->configuration, tuned.fallback()),
               text_of(done.entry->configuration), done.entry->how);
  }
  fmt::print(prose, "{}", refusals(store.candidates(key)));
  for (const auto& [tiles, why] : done.failed) {
    if (!store.candidate(key, tiles)) fmt::print(prose, "  {}: {}\n", text_of(tiles), why);
  }
  say_what_is_left(done, tuned, store, prose);
  return done.entry.has_value();
}

/// `ranks`: null in one process.
bool tune_on(const KernelHandle& kernel, const RunArguments& a, tuning::Store& store,
             std::FILE* prose, Transport* ranks) {
  const TunedKernel tuned(kernel, request_of(kernel, a), a.timing);
  check_tiles(tuned);
  if (a.timing == "compiler") return tune_by_compiler(tuned, a, store, prose);
  const auto start = std::chrono::steady_clock::now();
  const Tuned done = autotune(tuned, store, a.budget, threads_of(a), ranks);
  if (ranks != nullptr && ranks->rank() > 0) return true;  // rank 0 tells
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  fmt::print(prose, "{}: {} candidates, {} known from before, {} cannot run; tuned in {}\n",
             tuned.title(), done.candidates, done.known, done.refused,
             report::duration(spent.count()));
  fmt::print(prose, "{}", ranked_by(tuned));
  if (done.slower > 0)
    fmt::print(prose, "  {} take longer at published rates already\n", done.slower);
  const std::vector<tuning::Evaluated> all = store.candidates(tuned.key());
  if (done.entry) fmt::print(prose, "{}", table(all, done.entry->configuration, tuned.fallback()));
  if (!done.entry) fmt::print(prose, "{}", refusals(all));
  if (done.left > 0)
    fmt::print(prose, "{} are left: the same command goes on where this one ended\n", done.left);
  return done.entry.has_value();
}

}  // namespace

int tune_command(const Kernels& kernels, const RunArguments& a, const TuneArguments& t) {
  constexpr std::size_t kLargestFile = std::size_t{1} << 26;
  if (a.kernel.empty() && t.exported.empty() && t.imported.empty())
    throw InputError("bad-usage", "nothing to tune: name a kernel",
                     "tessera tune matmul m=4096 n=4096 k=4096");
  static_cast<void>(measure_options(a));
  const bool measures = a.backend == "cuda";
  const bool compiles = a.timing == "compiler";
  const std::unique_ptr<Transport> ranks = connect_ranks();
  if (ranks && measures)
    throw InputError("bad-usage", "tune --backend cuda times candidates one after the other",
                     "run it in one process, without mpirun");
  if (ranks && compiles)
    throw InputError("bad-usage", "tune --timing compiler asks one compiler on one machine",
                     "run it in one process, without mpirun: --threads compile at once");
  const bool silent = ranks && ranks->rank() > 0;
  std::FILE* const prose = t.exported == "-" ? stderr : stdout;
  tuning::Store store(store_of(a));
  if (!t.imported.empty() && !silent) {
    const std::size_t taken = store.import(read_file(t.imported, kLargestFile), t.imported);
    fmt::print(prose, "{} choice{} from {} in {}\n", taken, taken == 1 ? "" : "s", t.imported,
               store.path());
  }
  bool all = true;
  // Without anything that says how to tune, the choices that there are are exported.
  const bool tunes =
      t.exported.empty() || !a.assignments.empty() || a.budget > 0 || measures || compiles;
  if (!a.kernel.empty() && tunes) {
    const KernelHandle& kernel = kernels.find(a.kernel);
    if (const std::optional<Gpu> gpu = gpu_of(kernel, a)) {
      const TunedKernel tuned(kernel, request_of(kernel, with_device(a, gpu->spec)), a.timing);
      check_tiles(tuned);
      all = tune_on_gpu(*gpu, tuned, a, store, prose);
    } else {
      for (const std::string& device : split(a.device))
        all = tune_on(kernel, with_device(a, device), store, prose, ranks.get()) && all;
    }
    if (all && !silent)
      fmt::print(prose, "{} has it: tessera run {} ... --tuned{}\n", store.path(), a.kernel,
                 measures             ? std::string(" --backend cuda")
                 : a.timing != "best" ? " --timing " + a.timing
                                      : "");
  }
  if (!t.exported.empty() && !silent) {
    const std::string text = store.exported(a.kernel);
    if (t.exported == "-")
      fmt::print("{}", text);
    else
      write_file_atomically(t.exported, text);
  }
  return all ? 0 : 1;
}

int why_command(const Kernels& kernels, const RunArguments& a) {
  static_cast<void>(measure_options(a));
  const KernelHandle& kernel = kernels.find(a.kernel);
  const std::optional<Gpu> gpu = gpu_of(kernel, a);
  const RunArguments predicting = gpu ? with_device(a, gpu->spec) : a;
  const TunedKernel tuned(kernel, request_of(kernel, predicting), predicting.timing);
  const std::unique_ptr<Scheduler> scheduler = scheduler_of(tuned, predicting);
  const tuning::Answer answer =
      resolve(tuned, predicting,
              gpu ? judge_of(gpu, tuned, a) : judge_of(scheduler.get(), tuned, predicting));
  fmt::print("{}\n", gpu ? measured_title(tuned, *gpu) : tuned.title());
  for (const tuning::Said& said : answer.said)
    fmt::print("  {:<10} {}\n", name(said.tier), said.what);
  fmt::print("{} by the {} tier\n", text_of(answer.configuration), name(answer.tier));
  const tuning::Store store(store_of(a));
  std::vector<tuning::Evaluated> all = store.candidates(tuned.key());
  const auto evaluated = [&](const tuning::Configuration& tiles) {
    const auto has = [&](const tuning::Evaluated& e) { return e.configuration == tiles; };
    return std::ranges::any_of(all, has);
  };
  // What nobody has evaluated yet is, for this table alone.
  for (const tuning::Configuration* tiles : {&answer.configuration, &tuned.fallback()}) {
    if (evaluated(*tiles)) continue;
    Point p;
    p.device = predicting.device;
    p.assignments = tuned.request().assignments;
    p.assignments.insert(p.assignments.end(), tiles->begin(), tiles->end());
    count_point(count_of(kernel, tuned.request(), {.by = a.timing == "model" ? "model" : "best"}),
                p);
    all.push_back({*tiles, p.rank_seconds, p.seconds > 0 ? p.binds : "bytes alone", p.reason});
  }
  std::ranges::stable_sort(
      all, {}, [](const tuning::Evaluated& e) { return std::pair(!e.runs(), e.seconds); });
  if (gpu) {
    const std::vector<tuning::Evaluated> measured = store.candidates(measured_key(tuned, *gpu));
    fmt::print("\n{} candidates, measured\n", measured.size());
    if (!measured.empty())
      fmt::print("{}",
                 judged_table("measured", measured, all, answer.configuration, tuned.fallback()));
  }
  if (scheduler) {
    const std::vector<tuning::Evaluated> compiled =
        store.candidates(scheduled_key(tuned, *scheduler));
    fmt::print("\n{} candidates, compiled by {}\n", compiled.size(), scheduler->version());
    if (!compiled.empty())
      fmt::print("{}{}",
                 judged_table("compiled", compiled, all, answer.configuration, tuned.fallback()),
                 refusals(compiled));
  }
  fmt::print("\n{} candidates, predicted{}\n{}{}{}", all.size(), gpu ? " for " + gpu->spec : "",
             ranked_by(tuned), table(all, answer.configuration, tuned.fallback()), refusals(all));
  return 0;
}

}  // namespace tessera::cli
