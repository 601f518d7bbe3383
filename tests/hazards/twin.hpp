// Pairs of programs: a bad one and, one line away, its good twin.
//
// A pair is one kernel with a flag. The bad program must be found under every schedule, whether or
// not the hazard bites in it; the good one must stay silent under 200 random schedules and those
// with names. A pair whose hazard exists in some schedules only says so (kEverySchedule = false):
// then explore must find it.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sim/body/emit_pipeline.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/run.hpp"
#include "tests/golden_text.hpp"

namespace tessera::hazards {

inline constexpr int kRows = 8;    ///< of a slot
inline constexpr int kCols = 256;  ///< of every array
inline constexpr int kParts = 8;   ///< slots in an array

/// What every pair has.
struct Program {
  static constexpr KernelInfo info{.name = "twin", .summary = "", .math = ""};
  static constexpr auto tiles = kNoTiles;
  static constexpr bool kEverySchedule = true;
  static std::vector<int> mesh() { return {1}; }
  static int cores() { return 1; }
  bool bad = false;
};

/// Local copies: x is given, o is HBM scratch; four slots and a semaphore each; a counting one.
template <int kSteps = 1>
struct Local : Program {
  auto spec() const {
    return tessera::spec(grid(arbitrary(kSteps).as("i")),
                         hbm_in<float>("x", shape(kParts * kRows, kCols)),
                         hbm<float>("o", shape(kParts * kRows, kCols)),
                         vmem<float>("buf", 4, kRows, kCols), dma_sem("sems", 4), sem("s", 2));
  }
};

/// A mesh of three: a shard, HBM scratch, slots, semaphores for both ends, counting ones.
struct Mesh : Program {
  static std::vector<int> mesh() { return {3}; }
  auto spec() const {
    return tessera::spec(grid(arbitrary(1)), hbm_in<float>("x", shape(kRows, kCols)),
                         hbm<float>("o", shape(kParts * kRows, kCols)),
                         vmem<float>("buf", 4, kRows, kCols), dma_sem("send", 4),
                         dma_sem("recv", 4), sem("s", 2));
  }
  static int right(auto& env) { return (env.device_id() + 1) % env.num_devices(); }
  static int left(auto& env) {
    return (env.device_id() + env.num_devices() - 1) % env.num_devices();
  }
  static void barrier(auto& env) {
    const auto b = env.barrier_semaphore();
    for (int d = 0; d < env.num_devices(); ++d) semaphore_signal(b, 1, d);
    semaphore_wait(b, env.num_devices());
  }
};

/// Part i of an array in HBM: a slot's worth of rows.
auto part(auto array, int i) { return array.slice(ds(i * kRows, kRows), ds(0, kCols)); }

/// Uses what a slot holds.
void use(auto& env, auto ref) { env.check(load(*ref)(0, 0) < 1e30f, "a number"); }

template <class K>
RunResult run_twin(bool bad, const Schedule& schedule) {
  K kernel{};
  kernel.bad = bad;
  if constexpr (requires { kernel.prepare(); }) kernel.prepare();
  const auto spec = kernel.spec();
  const Plan plan = plan_of("twin", spec, default_device());
  int devices = 1;
  for (const int extent : K::mesh()) devices *= extent;
  std::vector<Array> arrays;
  for (const auto& op : plan.operands) {
    if (!op.is_input() || !op.present) continue;
    Shape all = op.array;
    all[0] *= devices;
    Array& array = arrays.emplace_back(op.dtype, all);
    const std::int64_t elems = array.elems();
    for (std::int64_t i = 0; i < elems; ++i) array.set(i, static_cast<double>(i % 1000));
  }
  Inputs inputs;
  for (const auto& a : arrays) inputs.push_back(&a);
  RunOptions options;
  options.mesh = K::mesh();
  options.cores = K::cores();
  options.schedule = schedule;
  options.command = "tessera run twin";
  return run(kernel, tiles(), inputs, options);
}

inline std::string first_text(const RunResult& r) {
  return r.ok() ? "no diagnostic" : r.diagnostics[0].text();
}

/// The name of a pair: that of its type.
template <class K>
std::string name_of() {
  const std::string text = __PRETTY_FUNCTION__;
  const std::size_t last = text.find_first_of(";]", text.find("K = "));
  const std::string type = text.substr(0, last);
  return type.substr(type.rfind("::") + 2);
}

/// The message of a bad program under eager is golden.
template <class K>
void compare_message(const std::string& text) {
  tests::compare_with_golden(__FILE__, "messages/" + name_of<K>() + ".txt", text);
}

template <class K>
void check_twin() {
  constexpr std::uint64_t kGoodSchedules = 200;
  constexpr std::uint64_t kBadSchedules = 20;
  std::vector<Schedule> named{
      {Schedule::Kind::eager, 0}, {Schedule::Kind::on_wait, 0}, {Schedule::Kind::adversarial, 0}};
  std::vector<Schedule> schedules = named;
  for (std::uint64_t i = 0; i < kGoodSchedules; ++i) {
    schedules.push_back({Schedule::Kind::random, i});
  }
  int silent = 0;
  for (const Schedule& s : schedules) {
    const RunResult good = run_twin<K>(false, s);
    INFO("good twin under " << to_string(s) << ":\n" << first_text(good));
    REQUIRE(good.ok());
    ++silent;
  }
  CHECK(silent == 203);
  if (!K::kEverySchedule) {
    const RunResult bad = run_twin<K>(true, {Schedule::Kind::explore, 100});
    INFO(first_text(bad));
    REQUIRE_FALSE(bad.ok());
    CHECK(bad.diagnostics[0].slug == K::slug);
    compare_message<K>(first_text(bad));
    // The schedule that it names finds it again.
    const RunResult again = run_twin<K>(true, bad.schedule);
    CHECK(first_text(again) == first_text(bad));
    return;
  }
  schedules.resize(named.size() + kBadSchedules);
  for (const Schedule& s : schedules) {
    const RunResult bad = run_twin<K>(true, s);
    INFO("bad program under " << to_string(s) << ":\n" << first_text(bad));
    REQUIRE_FALSE(bad.ok());
    REQUIRE(bad.diagnostics[0].slug == K::slug);
    CHECK(first_text(bad).find("replay") != std::string::npos);
    if (s == named[0]) compare_message<K>(first_text(bad));
  }
}

}  // namespace tessera::hazards
