// Candidates by a compiler's schedules, of a compiler that is made up: what is compiled, kept, and
// gone on with. Google's is asked in tests/python/test_check.py, where it is installed.
#include "cli/scheduled.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/tuning/folder.hpp"

using namespace tessera;
using namespace tessera::cli;
using tuning::Configuration;

namespace {

class FakeScheduler final : public Scheduler {
 public:
  std::string version() const override { return compiler; }
  std::string build() const override { return modules; }
  Schedule schedule(const Configuration& tiles) override {
    const std::string text = tuning::text_of(tiles);
    {
      const std::lock_guard lock(mutex_);
      if (static_cast<int>(compiled.size()) >= breaks_after)
        throw InputError("no-tpu-compiler", "the compiler is gone");
      compiled.push_back(text);
      at_once = std::max(at_once, ++now_);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(takes_ms));
    const std::lock_guard lock(mutex_);
    --now_;
    if (late.contains(text))
      return {.seconds = 0, .binds = "", .why_not = "no-verdict: it did not end", .lasting = false};
    if (refused.contains(text))
      return {.seconds = 0, .binds = "", .why_not = "does-not-compile: no such layout"};
    const auto known = seconds.find(text);
    return {
        .seconds = known == seconds.end() ? 2e-6 : known->second, .binds = "MXU", .why_not = ""};
  }
  std::set<std::string> asked() const { return {compiled.begin(), compiled.end()}; }

  std::string compiler = "libtpu 1, jax 2";
  std::string modules = "modules";
  std::set<std::string> refused;
  std::set<std::string> late;
  std::map<std::string, double> seconds;  ///< 2e-6 if not said
  std::vector<std::string> compiled;
  int breaks_after = 1 << 30;
  int takes_ms = 0;
  int at_once = 0;  ///< the most

 private:
  std::mutex mutex_;
  int now_ = 0;
};

/// A softmax of 4,096 rows: the tile bm alone varies.
struct Softmax {
  explicit Softmax(std::vector<std::string> words = {"m=4096", "n=128"},
                   const std::string& device = "tpu-v5e") {
    RunArguments a;
    a.kernel = "softmax_rows";
    a.case_index = 1;  // whose bm is 16
    a.device = device;
    a.assignments = std::move(words);
    tuned.emplace(kernel, request_of(kernel, a));
  }
  Scheduled scheduled(FakeScheduler& scheduler, MeasureOptions options = {.candidates = 2}) {
    return tune_by_schedule(*tuned, scheduler, store, options);
  }
  std::vector<tuning::Evaluated> kept(const FakeScheduler& scheduler) const {
    return store.candidates(scheduled_key(*tuned, scheduler));
  }
  /// By predicted time, without the case's tiles.
  std::vector<std::string> ranking() {
    std::vector<std::string> all;
    for (const auto& e : autotune(*tuned, store, 0, 1).ranked)
      if (e.configuration != tuned->fallback()) all.push_back(tuning::text_of(e.configuration));
    return all;
  }
  std::string standard() const { return tuning::text_of(tuned->fallback()); }

  const KernelHandle& kernel = builtin_kernels().find("softmax_rows");
  TuningFolder folder;
  tuning::Store store{folder.file("cache.sqlite")};
  std::optional<TunedKernel> tuned;
};

std::string chosen(const Scheduled& done) {
  return done.entry ? tuning::text_of(done.entry->configuration) : "none";
}

}  // namespace

TEST_CASE("the first of the ranking are compiled, and the default; the shortest is chosen",
          "[cli][scheduled]") {
  Softmax softmax;
  const std::vector<std::string> ranking = softmax.ranking();
  REQUIRE(ranking.size() > 5);
  FakeScheduler scheduler;
  scheduler.seconds = {{ranking[1], 1e-6}};
  const Scheduled done = softmax.scheduled(scheduler);
  CHECK(scheduler.asked() == std::set{softmax.standard(), ranking[0], ranking[1]});
  CHECK(done.picked == 3);
  CHECK(chosen(done) == ranking[1]);
  CHECK(done.entry->how == "by the compiler's schedule");
  CHECK(done.entry->seconds == 1e-6);
  CHECK(done.entry->candidates == 3);
  CHECK(softmax.kept(scheduler).front().binds == "MXU");
  // What is predicted lies beside it, under its own key.
  REQUIRE(softmax.store.find(softmax.tuned->key()));
  CHECK(softmax.store.find(softmax.tuned->key())->how == "predicted");
}

TEST_CASE("what the compiler refuses is said, is not chosen, and the next takes its place",
          "[cli][scheduled]") {
  for (const int threads : {1, 3}) {
    Softmax softmax;
    const std::vector<std::string> ranking = softmax.ranking();
    FakeScheduler scheduler;
    scheduler.takes_ms = threads > 1 ? 2 : 0;
    scheduler.refused = {ranking[0]};
    scheduler.late = {ranking[1]};
    scheduler.seconds = {{ranking[3], 1e-6}, {ranking[4], 1e-9}};
    const Scheduled done = softmax.scheduled(scheduler, {.candidates = 2, .threads = threads});
    // Two of the ranking have a schedule: whoever is done first, no more are compiled.
    CHECK(scheduler.asked() ==
          std::set{softmax.standard(), ranking[0], ranking[1], ranking[2], ranking[3]});
    CHECK(chosen(done) == ranking[3]);
    std::map<std::string, std::string> why;
    for (const auto& [tiles, what] : done.failed) why[tuning::text_of(tiles)] = what;
    CHECK(why ==
          std::map<std::string, std::string>{{ranking[0], "does-not-compile: no such layout"},
                                             {ranking[1], "no-verdict: it did not end"}});
    // A refusal is kept; what may be another time is not.
    const auto kept = softmax.kept(scheduler);
    CHECK(kept.size() == 4);
    REQUIRE_FALSE(kept.back().runs());
    CHECK(tuning::text_of(kept.back().configuration) == ranking[0]);
  }
}

TEST_CASE("several are compiled at once, no more than threads", "[cli][scheduled]") {
  Softmax softmax;
  FakeScheduler scheduler;
  scheduler.takes_ms = 30;
  softmax.scheduled(scheduler, {.candidates = 6, .threads = 3});
  CHECK(scheduler.compiled.size() == 7);
  CHECK(scheduler.at_once == 3);
}

TEST_CASE("what was compiled is known when the rest is lost, and is not compiled again",
          "[cli][scheduled]") {
  Softmax softmax;
  const std::vector<std::string> ranking = softmax.ranking();
  FakeScheduler first;
  first.seconds = {{ranking[0], 1e-6}};
  first.breaks_after = 3;
  CHECK_THROWS_WITH(softmax.scheduled(first, {.candidates = 4}), "the compiler is gone");
  CHECK(first.compiled.size() == 3);
  FakeScheduler second;
  const Scheduled done = softmax.scheduled(second, {.candidates = 4});
  CHECK(done.known == 3);
  CHECK(second.asked() == std::set{ranking[2], ranking[3]});
  CHECK(chosen(done) == ranking[0]);  // of the first process
  FakeScheduler third;
  CHECK(chosen(softmax.scheduled(third, {.candidates = 4})) == ranking[0]);
  CHECK(third.compiled.empty());
}

TEST_CASE("a compiler, or modules, that are others are asked anew", "[cli][scheduled]") {
  Softmax softmax;
  FakeScheduler scheduler;
  softmax.scheduled(scheduler);
  FakeScheduler other;
  SECTION("of another version") { other.compiler = "libtpu 2, jax 2"; }
  SECTION("of other modules") { other.modules = "others"; }
  softmax.scheduled(other);
  CHECK(other.asked() == scheduler.asked());
}

TEST_CASE("all are compiled if all are asked for", "[cli][scheduled]") {
  Softmax softmax;
  FakeScheduler all;
  const std::size_t many = softmax.ranking().size() + 1;
  CHECK(softmax.scheduled(all, {.candidates = 0}).picked == many);
  CHECK(all.compiled.size() == many);
}

TEST_CASE("tiles that are given are compiled, without the case's", "[cli][scheduled]") {
  Softmax given({"m=4096", "n=128", "bm=8,32"});
  FakeScheduler two;
  given.scheduled(two, {.candidates = 0});
  CHECK(two.asked() == std::set<std::string>{"bm=8 bn=128", "bm=32 bn=128"});
}

TEST_CASE("two are compiled in any budget, the others when there is one again",
          "[cli][scheduled]") {
  Softmax softmax;
  const std::vector<std::string> ranking = softmax.ranking();  // all that is predicted is known
  FakeScheduler scheduler;
  scheduler.takes_ms = 20;
  const Scheduled done = softmax.scheduled(scheduler, {.candidates = 3, .budget = 0.01});
  CHECK(scheduler.asked() == std::set{softmax.standard(), ranking[0]});
  CHECK(done.left == 2);
  CHECK(done.entry);
  CHECK(softmax.scheduled(scheduler, {.candidates = 3}).left == 0);
  CHECK(scheduler.compiled.size() == 4);
}

TEST_CASE("nothing is chosen where the compiler takes nothing", "[cli][scheduled]") {
  Softmax softmax({"m=4096", "n=128", "bm=8,32"});
  FakeScheduler scheduler;
  scheduler.refused = {"bm=8 bn=128", "bm=32 bn=128"};
  const Scheduled done = softmax.scheduled(scheduler);
  CHECK_FALSE(done.entry);
  CHECK(done.failed.size() == 2);
}

TEST_CASE("a schedule's choice comes before the prediction's", "[cli][scheduled]") {
  Softmax softmax;
  const std::vector<std::string> ranking = softmax.ranking();
  FakeScheduler scheduler;
  scheduler.seconds = {{ranking[1], 1e-6}};
  RunArguments a;
  a.cache = softmax.folder.file("cache.sqlite");
  a.timing = "compiler";
  const auto answer = [&] {
    return tuning::text_of(
        resolve(*softmax.tuned, a, judge_of(&scheduler, *softmax.tuned, a)).configuration);
  };
  CHECK(answer() == ranking[0]);  // predicted: nothing else is known yet
  softmax.scheduled(scheduler);
  CHECK(answer() == ranking[1]);
  CHECK(tuning::text_of(resolve(*softmax.tuned, a, std::nullopt).configuration) == ranking[0]);
  a.cache = softmax.folder.file("another.sqlite");
  a.budget = 60;
  const tuning::Answer autotuned =
      resolve(*softmax.tuned, a, judge_of(&scheduler, *softmax.tuned, a));
  CHECK(autotuned.tier == tuning::Tier::autotune);
  CHECK(tuning::text_of(autotuned.configuration) == ranking[1]);
}

TEST_CASE("who has no schedule is told why", "[cli][scheduled]") {
  CHECK(why_not_scheduled(*Softmax().tuned).empty());
  CHECK(why_not_scheduled(*Softmax({"m=4096", "n=128"}, "h200").tuned).empty());
  const Softmax gpu({"m=4096", "n=128"}, "a100");
  CHECK(why_not_scheduled(*gpu.tuned) ==
        "code is read that nvcc makes for Hopper, which a100 is not");
  RunArguments a;
  CHECK(scheduler_of(*gpu.tuned, a) == nullptr);  // nobody asked
  a.timing = "compiler";
  CHECK_THROWS_WITH(
      scheduler_of(*gpu.tuned, a),
      "--timing compiler: code is read that nvcc makes for Hopper, which a100 is not");
  const KernelHandle& ring = builtin_kernels().find("ring_all_gather");
  a.kernel = "ring_all_gather";
  CHECK(why_not_scheduled(TunedKernel(ring, request_of(ring, a)))
            .starts_with("ring_all_gather runs on several devices"));
}
