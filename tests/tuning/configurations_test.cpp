#include "tuning/configurations.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>

#include "sim/diagnostics/diagnostic.hpp"
#include "tests/tuning/folder.hpp"

using namespace tessera;
using namespace tessera::tuning;

namespace {

Key matmul_key(double m) { return key_of("matmul", "tpu-v5e", "f", {{"m", m}}, "f32", {1}); }

Configuration bm(const char* value) { return {{"bm", value}}; }

void keep(Store& store, double m, const char* value) {
  store.keep(matmul_key(m), {bm(value), 1e-3, "HBM", ""});
  store.choose(matmul_key(m), "predicted");
}

std::string what(const Answer& answer) { return answer.said.back().what; }

}  // namespace

TEST_CASE("the first tier that answers chooses", "[tuning][tiers]") {
  const TuningFolder folder;
  Configurations all(folder.file("cache.sqlite"));
  Question q{.key = matmul_key(512)};
  int tunings = 0;
  q.heuristic = [] { return bm("8"); };
  CHECK(all.resolve(q).tier == Tier::heuristic);
  CHECK(all.resolve(q).tier == Tier::heuristic);  // a default is not remembered
  q.autotune = [&] {
    ++tunings;
    return Entry{q.key, bm("16"), 2e-3, "predicted", 5};
  };
  CHECK(all.resolve(q).configuration == bm("16"));
  CHECK(all.resolve(q).tier == Tier::memory);
  CHECK(tunings == 1);
  all.forget();
  keep(all.store(), 512, "32");
  CHECK(all.resolve(q).tier == Tier::persistent);
  CHECK(all.resolve(q).tier == Tier::memory);
  CHECK(all.resolve(q).configuration == bm("32"));
  CHECK(all.resolve(q).seconds == 1e-3);
  const Overlay outer{"outer", {{{.operation = "matmul"}, bm("64")}}};
  const Overlay inner{"inner", {{{}, bm("128")}}};
  q.overlays = {&outer};
  CHECK(what(all.resolve(q)) == "outer");
  q.overlays = {&outer, &inner};
  CHECK(all.resolve(q).configuration == bm("128"));
  q.given = bm("256");
  const Answer answer = all.resolve(q);
  CHECK(answer.tier == Tier::given);
  CHECK(answer.said.size() == 1);
  CHECK(tunings == 1);
}

TEST_CASE("another key's choice serves till there is one of its own", "[tuning][tiers]") {
  const TuningFolder folder;
  Configurations all(folder.file("cache.sqlite"));
  Question q{.key = matmul_key(512), .heuristic = [] { return bm("8"); }};
  q.key.device = "NVIDIA H200";
  q.else_key = matmul_key(512);
  CHECK(all.resolve(q).tier == Tier::heuristic);
  keep(all.store(), 512, "32");
  const Answer predicted = all.resolve(q);
  CHECK(predicted.tier == Tier::persistent);
  CHECK(predicted.configuration == bm("32"));
  REQUIRE(predicted.said.size() == 6);
  CHECK_THAT(predicted.said[3].what, Catch::StartsWith("nothing for m=512 on NVIDIA H200 in "));
  CHECK_THAT(what(predicted), Catch::Contains("predicted, for m=512 on tpu-v5e; in "));
  // To measure comes before to predict, and what was measured is found though the other was asked.
  q.autotune = [&]() -> std::optional<Entry> { return std::nullopt; };
  CHECK(all.resolve(q).configuration == bm("32"));
  q.autotune = [&] { return Entry{q.key, bm("16"), 2e-3, "measured", 2}; };
  CHECK(all.resolve(q).tier == Tier::autotune);
  all.forget();
  q.autotune = {};
  all.store().keep(q.key, {bm("64"), 1e-3, "HBM", ""});
  all.store().choose(q.key, "measured");
  CHECK(all.resolve(q).configuration == bm("64"));
  CHECK(all.resolve(q).tier == Tier::memory);
  // Of an overlay too.
  const Overlay file{"tuned.json", {{matmul_key(512), bm("128")}}};
  q.overlays = {&file};
  CHECK(all.resolve(q).configuration == bm("128"));
  q.else_key.reset();
  CHECK(all.resolve(q).configuration == bm("64"));
}

TEST_CASE("what another size of the bucket cannot have does not serve it", "[tuning][tiers]") {
  const TuningFolder folder;
  Configurations all(folder.file("cache.sqlite"));
  keep(all.store(), 8190, "63");
  Question q{.key = matmul_key(8192), .heuristic = [] { return bm("8"); }};
  CHECK(all.resolve(q).configuration == bm("63"));
  all.forget();
  q.why_not = [](const Configuration& c) {
    return c == bm("63") ? "8192 is no multiple of 63" : "";
  };
  const Answer answer = all.resolve(q);
  CHECK(answer.configuration == bm("8"));
  REQUIRE(answer.said.size() == 6);
  CHECK(answer.said[3].what == "bm=63, chosen for m=8190, cannot serve: 8192 is no multiple of 63");
}

TEST_CASE("an overlay for other keys says so and is passed by", "[tuning][tiers]") {
  const TuningFolder folder;
  Configurations all(folder.file("cache.sqlite"));
  Question q{.key = matmul_key(512), .heuristic = [] { return bm("8"); }};
  Overlay file{"tuned.json", {{matmul_key(512), bm("64")}}};
  q.overlays = {&file};
  CHECK(all.resolve(q).configuration == bm("64"));
  const auto refused = [&](auto change, const char* why) {
    Overlay other = file;
    change(other.entries.front().key);
    q.overlays = {&other};
    const Answer answer = all.resolve(q);
    CHECK(answer.tier == Tier::heuristic);
    CHECK_THAT(answer.said[1].what, Catch::Contains(why));
  };
  refused([](Key& k) { k.device = "h200"; }, "tuned.json: bm=64 is for h200");
  refused([](Key& k) { k.dtype = "bf16"; }, "is for bf16");
  refused([](Key& k) { k.mesh = "2x4"; }, "is for a mesh of 2x4");
  refused([](Key& k) { k.shapes = "m=1024"; }, "is for m=1024");
  refused([](Key& k) { k.fingerprint = "old"; }, "was chosen for another version");
  refused([](Key& k) { k.operation = "softmax"; }, "nothing for matmul");
}

TEST_CASE("where no tier answers, the error has what each said", "[tuning][tiers]") {
  const TuningFolder folder;
  const std::string path = folder.file("cache.sqlite");
  std::ofstream(path) << std::string(5000, 'x');
  Configurations all(path);
  Question q{.key = matmul_key(512)};
  q.autotune = [] { return std::nullopt; };
  q.heuristic = [] { return bm("4096"); };
  q.why_not = [](const Configuration&) { return "it does not fit"; };
  try {
    all.resolve(q);
    FAIL("there is no configuration");
  } catch (const InputError& error) {
    CHECK(error.slug == "no-configuration");
    CHECK(std::string(error.what()) ==
          "no tier has a configuration of matmul for m=512 f32 on tpu-v5e\n"
          "  explicit   none given\n"
          "  overlay    there is none\n"
          "  memory     not asked before\n"
          "  persistent " +
              path +
              ": file is not a database\n"
              "  autotune   no candidate runs\n"
              "  heuristic  bm=4096, the default, cannot serve: it does not fit");
  }
}

TEST_CASE("a warm look-up takes microseconds", "[.][figures]") {
  const TuningFolder folder;
  Configurations all(folder.file("cache.sqlite"));
  keep(all.store(), 8192, "128");
  constexpr int kTimes = 1'000'000;
  std::size_t answered = 0;
  const std::clock_t start = std::clock();
  for (int i = 0; i < kTimes; ++i)
    answered += all.resolve({.key = matmul_key(8192)}).configuration.size();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  REQUIRE(answered == kTimes);
  WARN("a look-up, its key made anew: " << seconds / kTimes * 1e6 << " us of CPU time");
  CHECK(seconds / kTimes < 2e-6);
}
