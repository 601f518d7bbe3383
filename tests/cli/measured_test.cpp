// Candidates by measured time, on clocks that are made up: what is timed, kept, and gone on with.
#include "cli/measured.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "cli/gpu_bench.hpp"
#include "tests/tuning/folder.hpp"

using namespace tessera;
using namespace tessera::cli;
using tuning::Configuration;

namespace {

class FakeBench final : public Bench {
 public:
  std::string why_not(const Configuration& tiles) const override {
    return refused.contains(tuning::text_of(tiles)) ? "no-backend: too large" : "";
  }
  void compile(const Configuration& tiles) override {
    const std::lock_guard lock(mutex_);
    ++compiled[tuning::text_of(tiles)];
    if (broken.contains(tuning::text_of(tiles))) throw InputError("no-backend", "nvcc: no");
  }
  void place(const Configuration& tiles) override {
    if (hard.contains(tuning::text_of(tiles)))
      throw cuda::CudaError("too many resources requested");
    placed.push_back(tuning::text_of(tiles));
  }
  double time(std::size_t i) override {
    if (timings++ >= breaks_after) throw std::runtime_error("the machine is gone");
    const auto known = seconds.find(placed.at(i));
    return slower * (known == seconds.end() ? 2. : known->second) * (1 + spread * normal_(draw_));
  }
  double resolution() const override { return 1e-6; }

  std::set<std::string> refused;
  std::set<std::string> broken;
  std::set<std::string> hard;
  std::map<std::string, double> seconds;  ///< 2 if not said
  std::map<std::string, int> compiled;
  std::vector<std::string> placed;
  double slower = 1;
  double spread = 0.001;
  int timings = 0;
  int breaks_after = 1 << 30;

 private:
  std::mutex mutex_;
  std::mt19937_64 draw_{1};
  std::normal_distribution<double> normal_;
};

/// A softmax of 4,096 rows: the tile bm alone varies.
struct MeasuredSoftmax {
  explicit MeasuredSoftmax(std::vector<std::string> words = {"m=4096", "n=128"}) {
    RunArguments a;
    a.kernel = "softmax_rows";
    a.case_index = 1;  // whose bm is 16
    a.device = "h200";
    a.assignments = std::move(words);
    tuned.emplace(kernel, request_of(kernel, a));
    key = tuned->key();
    key.device = "NVIDIA H200";
    key.fingerprint = "measured";
  }
  Measured measured(FakeBench& bench, MeasureOptions options = {.candidates = 4}) {
    options.threads = 2;
    return measure(*tuned, key, bench, store, options);
  }
  /// By predicted time.
  std::vector<std::string> ranking() {
    std::vector<std::string> all;
    for (const auto& e : autotune(*tuned, store, 0, 1).ranked)
      all.push_back(tuning::text_of(e.configuration));
    return all;
  }

  const KernelHandle& kernel = builtin_kernels().find("softmax_rows");
  TuningFolder folder;
  tuning::Store store{folder.file("cache.sqlite")};
  std::optional<TunedKernel> tuned;
  tuning::Key key;
};

}  // namespace

TEST_CASE("the first of the ranking are timed, and the default; the fastest is chosen",
          "[cli][measured]") {
  MeasuredSoftmax softmax;
  const std::vector<std::string> ranking = softmax.ranking();
  REQUIRE(ranking.size() > 5);
  const std::string standard = tuning::text_of(softmax.tuned->fallback());
  FakeBench bench;
  bench.seconds = {{ranking[2], 1.}, {ranking[1], 1.05}};
  const Measured m = softmax.measured(bench);
  std::set<std::string> expected{ranking.begin(), ranking.begin() + 4};
  expected.insert(standard);
  CHECK(std::set<std::string>(bench.placed.begin(), bench.placed.end()) == expected);
  CHECK(m.picked == expected.size());
  CHECK(m.known == 0);
  REQUIRE(m.entry);
  CHECK(tuning::text_of(m.entry->configuration) == ranking[2]);
  CHECK(m.entry->seconds == Approx(1).epsilon(0.01));
  CHECK(m.entry->how == "measured, with 95 % confidence");
  CHECK(m.entry->candidates == static_cast<std::int64_t>(expected.size()));
  const auto kept = softmax.store.candidates(softmax.key);
  REQUIRE(kept.size() == expected.size());
  CHECK(tuning::text_of(kept[1].configuration) == ranking[1]);
  for (const auto& e : kept) {
    CHECK(e.interval > 0);
    CHECK(e.interval < 0.01 * e.seconds);
  }
  // Predicted choices lie beside it, under their own key.
  REQUIRE(softmax.store.find(softmax.tuned->key()));
  CHECK(softmax.store.find(softmax.tuned->key())->how == "predicted");
}

TEST_CASE("what is known is not measured again, the fastest of it defends its place",
          "[cli][measured]") {
  MeasuredSoftmax softmax;
  const std::vector<std::string> ranking = softmax.ranking();
  FakeBench first;
  first.seconds = {{ranking[1], 1.}};
  const Measured before = softmax.measured(first);
  FakeBench again;
  const Measured same = softmax.measured(again);
  CHECK(again.placed.empty());
  CHECK(again.compiled.empty());
  CHECK(same.known == same.picked);
  CHECK(same.entry == before.entry);

  FakeBench more;  // on a machine that has grown a tenth slower
  const std::string standard = tuning::text_of(softmax.tuned->fallback());
  const std::string faster = ranking[4] == standard ? ranking[5] : ranking[4];
  more.seconds = {{ranking[1], 1.}, {faster, 0.95}};
  more.slower = 1.1;
  const Measured wider = softmax.measured(more, {.candidates = 6});
  CHECK(more.placed.front() == ranking[1]);
  CHECK(wider.known == before.picked);
  CHECK(more.placed.size() == wider.picked - wider.known + 1);
  REQUIRE(wider.entry);
  CHECK(tuning::text_of(wider.entry->configuration) == faster);
  for (const auto& e : softmax.store.candidates(softmax.key)) {  // in the time of now
    if (tuning::text_of(e.configuration) == ranking[0])
      CHECK(e.seconds == Approx(2.2).epsilon(0.01));
    if (tuning::text_of(e.configuration) == ranking[1])
      CHECK(e.seconds == Approx(1.1).epsilon(0.01));
  }
}

TEST_CASE("those that went out stay known when the rest of a race is lost", "[cli][measured]") {
  MeasuredSoftmax softmax;
  const std::vector<std::string> ranking = softmax.ranking();
  FakeBench bench;
  bench.seconds = {{ranking[0], 1.}, {ranking[1], 1.0005}};  // the others are out after five rounds
  bench.spread = 0.02;
  bench.breaks_after = 30;
  CHECK_THROWS_WITH(softmax.measured(bench), "the machine is gone");
  const std::size_t out = softmax.store.candidates(softmax.key).size();
  CHECK(out >= 2);
  CHECK_FALSE(softmax.store.find(softmax.key));  // nobody has won
  FakeBench next;
  next.seconds = bench.seconds;
  const Measured m = softmax.measured(next);
  CHECK(m.known == out);
  REQUIRE(m.entry);
  CHECK((tuning::text_of(m.entry->configuration) == ranking[0] ||
         tuning::text_of(m.entry->configuration) == ranking[1]));
  CHECK(m.entry->how.starts_with("measured, "));
}

TEST_CASE("what cannot run does not keep the others from it", "[cli][measured]") {
  MeasuredSoftmax softmax;
  const std::vector<std::string> ranking = softmax.ranking();
  FakeBench bench;
  bench.refused = {ranking[0]};
  bench.broken = {ranking[1]};
  bench.hard = {ranking[2]};
  const Measured m = softmax.measured(bench);
  CHECK(bench.compiled.count(ranking[0]) == 0);
  CHECK(m.picked >= 4);  // the next of the ranking in its place
  REQUIRE(m.failed.size() == 2);
  std::map<std::string, std::string> why;
  for (const auto& [tiles, what] : m.failed) why[tuning::text_of(tiles)] = what;
  CHECK(why[ranking[1]] == "nvcc: no");
  CHECK(why[ranking[2]] == "too many resources requested");
  REQUIRE(m.entry);
  // Blocks that never fit are kept as such; what may be another time is not.
  const auto kept = softmax.store.candidates(softmax.key);
  REQUIRE_FALSE(kept.back().runs());
  CHECK(tuning::text_of(kept.back().configuration) == ranking[0]);
  CHECK(std::ranges::count_if(kept, [](const auto& e) { return !e.runs(); }) == 1);
}

TEST_CASE("tiles that are given are the candidates", "[cli][measured]") {
  MeasuredSoftmax softmax({"m=4096", "n=128", "bm=4,8"});
  FakeBench bench;
  const Measured two = softmax.measured(bench, {.candidates = 1, .rounds = 7});
  CHECK(two.picked == 1);
  FakeBench all;
  CHECK(softmax.measured(all, {.candidates = 0, .rounds = 7}).picked == 2);
  CHECK(bench.placed.size() == 1);
  CHECK(all.placed.size() == 2);  // the one that is known, again
  CHECK(all.timings == 14);
}

TEST_CASE("all are timed if all are asked for", "[cli][measured]") {
  MeasuredSoftmax softmax;
  const std::size_t all = softmax.ranking().size();
  FakeBench bench;
  CHECK(softmax.measured(bench, {.candidates = 0}).picked == all);
  CHECK(bench.placed.size() == all);
}

TEST_CASE("a GPU's name names the device that predicts for it", "[cli][measured]") {
  CHECK(spec_of_gpu("NVIDIA H200") == "h200");
  CHECK(spec_of_gpu("NVIDIA H100 80GB HBM3") == "h100");
  CHECK(spec_of_gpu("NVIDIA GH200 480GB") == "h100");
  CHECK(spec_of_gpu("NVIDIA A100-SXM4-40GB") == "a100");
  CHECK(spec_of_gpu("NVIDIA GeForce RTX 4090") == "rtx-4090");
}

TEST_CASE("what is measured has a key of its GPU, its driver and its build", "[cli][measured]") {
  const MeasuredSoftmax softmax;
  Gpu gpu;
  gpu.device.name = "NVIDIA H200";
  gpu.device.driver = "1.2";
  const tuning::Key key = measured_key(*softmax.tuned, gpu);
  CHECK(key.device == "NVIDIA H200");
  CHECK(key.sizes == softmax.tuned->key().sizes);
  CHECK(key.fingerprint != softmax.tuned->key().fingerprint);
  CHECK(key == measured_key(*softmax.tuned, gpu));
  gpu.device.driver = "1.3";
  CHECK(key.fingerprint != measured_key(*softmax.tuned, gpu).fingerprint);
}

TEST_CASE("what the command line says of measuring", "[cli][measured]") {
  RunArguments a;
  CHECK(measure_options(a).candidates == 8);
  a.candidates = "3";
  CHECK_THROWS_WITH(measure_options(a), "--candidates says how many are timed or compiled");
  a.timing = "compiler";
  CHECK(measure_options(a).candidates == 3);
  a.rounds = 7;
  CHECK_THROWS_WITH(measure_options(a), "--rounds says how often candidates are timed");
  a.backend = "cuda";
  CHECK_THROWS_AS(measure_options(a), InputError);  // one of them
  a.timing = "model";
  CHECK(measure_options(a).candidates == 3);
  a.candidates = "all";
  CHECK(measure_options(a).candidates == 0);
  a.candidates = "0";
  CHECK_THROWS_AS(measure_options(a), InputError);
}
