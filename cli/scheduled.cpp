#include "cli/scheduled.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "cli/budget.hpp"
#include "cli/cuda_timing.hpp"
#include "cli/module_commands.hpp"
#include "cli/nvcc_candidates.hpp"
#include "cli/progress.hpp"
#include "cli/signals.hpp"

namespace tessera::cli {

namespace {

using tuning::Configuration;
using tuning::Evaluated;

constexpr double kPredicting = 0.25;  // of the budget
constexpr std::size_t kTries = 3;     // for each candidate that is asked for

/// Threads that take candidates from a list till enough of them have a schedule. Which are taken
/// does not depend on who is done first.
class Compiling {
 public:
  Compiling(const tuning::Key& key, Scheduler& scheduler, tuning::Store& store,
            const Budget& budget, Scheduled& done)
      : key_(key), scheduler_(scheduler), store_(store), budget_(budget), done_(done) {}

  /// The first `always` of `list`, and of the others those up to the `most`-th that has a schedule.
  void run(std::vector<Configuration> list, std::size_t always, std::size_t most, int threads) {
    list_ = std::move(list);
    always_ = always;
    most_ = std::min(most, list_.size() - always);
    const double start = budget_.spent();
    std::vector<std::thread> workers;
    const std::size_t many =
        std::min(static_cast<std::size_t>(std::max(1, threads)), always_ + most_);
    for (std::size_t i = 0; i < many; ++i) workers.emplace_back([this] { work(); });
    for (std::thread& worker : workers) worker.join();
    done_.seconds = budget_.spent() - start;
    if (broken_) std::rethrow_exception(broken_);
    if (at_ < list_.size()) done_.left = most_ - scheduled_;
  }

 private:
  /// The next to take; none: that is all. Waits where what others compile now decides that.
  std::optional<std::size_t> next(std::unique_lock<std::mutex>& lock) {
    while (!broken_ && stop_flag() == Stop::none && at_ < list_.size()) {
      // Two are compiled whatever the budget: there is a choice then.
      if (at_ > 1 && budget_.past(1)) break;
      if (at_ < always_ || scheduled_ + compiling_ < most_) return at_++;
      if (scheduled_ >= most_) break;
      changed_.wait(lock);
    }
    return std::nullopt;
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (const std::optional<std::size_t> i = next(lock)) {
      const Configuration& tiles = list_[*i];
      const std::size_t counts = *i < always_ ? 0 : 1;
      ++done_.picked;
      if (const auto before = store_.candidate(key_, tiles)) {
        ++done_.known;
        took(*i, before->reason);
        continue;
      }
      compiling_ += counts;
      lock.unlock();
      Scheduler::Schedule schedule;
      std::exception_ptr broken;
      try {
        schedule = scheduler_.schedule(tiles);
        if (schedule.why_not.empty() || schedule.lasting)
          store_.keep(key_, {tiles, schedule.seconds, schedule.binds, schedule.why_not});
      } catch (...) {
        broken = std::current_exception();
      }
      lock.lock();
      compiling_ -= counts;
      if (broken)
        broken_ = broken;
      else
        took(*i, schedule.why_not);
      changed_.notify_all();
    }
  }

  void took(std::size_t i, const std::string& why_not) {
    ++taken_;
    if (!why_not.empty())
      done_.failed.emplace_back(list_[i], why_not);
    else if (i >= always_)
      ++scheduled_;
    progress_.show(
        static_cast<double>(scheduled_) / static_cast<double>(std::max<std::size_t>(1, most_)),
        fmt::format("{} are compiled, {} refused", taken_, done_.failed.size()));
  }

  const tuning::Key& key_;
  Scheduler& scheduler_;
  tuning::Store& store_;
  const Budget& budget_;
  Scheduled& done_;
  Progress progress_{"compiling"};
  std::vector<Configuration> list_;
  std::size_t always_ = 0;
  std::size_t most_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr broken_;
  std::size_t at_ = 0;
  std::size_t taken_ = 0;
  std::size_t scheduled_ = 0;  ///< of those that are not always taken
  std::size_t compiling_ = 0;  ///< likewise
};

}  // namespace

tuning::Key scheduled_key(const TunedKernel& tuned, const Scheduler& scheduler) {
  tuning::Key key = tuned.key();
  key.fingerprint =
      tuning::fingerprint(tuned.request().device.json,
                          scheduler.version() + " tessera " + TESSERA_VERSION, scheduler.build());
  return key;
}

Scheduled tune_by_schedule(const TunedKernel& tuned, Scheduler& scheduler, tuning::Store& store,
                           const MeasureOptions& options) {
  const Budget budget(options.budget);
  const tuning::Key key = scheduled_key(tuned, scheduler);
  Scheduled done;
  done.predicted = autotune(tuned, store, options.budget * kPredicting, options.threads);
  const auto is_default = [&](const Evaluated& e) {
    return tuned.given().empty() && e.configuration == tuned.fallback();
  };
  std::vector<Configuration> list;
  for (const bool always : {true, false}) {
    for (const Evaluated& e : done.predicted.ranked)
      if (is_default(e) == always) list.push_back(e.configuration);
  }
  if (list.empty()) return done;
  const auto always =
      static_cast<std::size_t>(std::ranges::count_if(done.predicted.ranked, is_default));
  std::size_t most = list.size() - always;
  if (options.candidates > 0) {
    most = options.candidates;
    list.resize(std::min(list.size(), always + kTries * most));
  }
  Compiling(key, scheduler, store, budget, done)
      .run(std::move(list), always, most, options.threads);
  done.entry = store.choose(key, scheduler.how());
  return done;
}

std::string why_not_scheduled(const TunedKernel& tuned) {
  const DeviceSpec& device = tuned.request().device;
  const bool gpu = device.kind == DeviceSpec::Kind::gpu;
  if (gpu) {
    if (std::string why = why_no_code(device); !why.empty()) return why;
  } else if (device.jax.chip.empty()) {
    return device.name + " is no TPU that its compiler knows";
  }
  if (tuned.kernel().make.front()()->devices() || tuned.request().devices > 1)
    return tuned.key().operation +
           " runs on several devices: the compiler's schedule of one does not say what the others "
           "send";
  return "";
}

std::unique_ptr<Scheduler> scheduler_of(const TunedKernel& tuned, const RunArguments& a) {
  if (a.timing != "compiler") return nullptr;
  if (const std::string why = why_not_scheduled(tuned); !why.empty())
    throw InputError("unsupported", "--timing compiler: " + why,
                     "without it block shapes are predicted");
  if (tuned.request().device.kind == DeviceSpec::Kind::gpu) return nvcc_scheduler(tuned);
  return module_commands().scheduler(tuned, a);
}

std::optional<Judge> judge_of(Scheduler* scheduler, const TunedKernel& tuned,
                              const RunArguments& a) {
  if (scheduler == nullptr) return std::nullopt;
  return Judge{scheduled_key(tuned, *scheduler), [scheduler, &tuned, &a](tuning::Store& store) {
                 return tune_by_schedule(tuned, *scheduler, store, measure_options(a)).entry;
               }};
}

}  // namespace tessera::cli
