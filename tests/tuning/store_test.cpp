#include "tuning/store.hpp"

#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "sim/diagnostics/diagnostic.hpp"
#include "tests/tuning/folder.hpp"

using namespace tessera;
using namespace tessera::tuning;

namespace {

Key key_for(double m, const std::string& fingerprint = "f") {
  return key_of("matmul", "tpu-v5e", fingerprint, {{"m", m}}, "f32", {1});
}

const Evaluated kSlow{{{"bm", "64"}}, 2e-3, "HBM", ""};
const Evaluated kFast{{{"bm", "128"}}, 1e-3, "matrix unit", ""};
const Evaluated kRefused{{{"bm", "4096"}}, 0, "", "vmem-capacity: too much"};

}  // namespace

TEST_CASE("a choice is the fastest candidate that runs", "[tuning][store]") {
  const TuningFolder folder;
  Store store(folder.file("new/cache.sqlite"));
  const Key key = key_for(512);
  CHECK_FALSE(store.choose(key, "predicted"));
  store.keep(key, kRefused);
  CHECK_FALSE(store.choose(key, "predicted"));
  store.keep(key, kSlow);
  store.keep(key, kFast);
  const auto chosen = store.choose(key, "predicted");
  REQUIRE(chosen);
  CHECK(*chosen == Entry{key, kFast.configuration, 1e-3, "predicted", 3});
  CHECK(store.candidates(key) == std::vector<Evaluated>{kFast, kSlow, kRefused});
  CHECK(store.candidate(key, kSlow.configuration) == kSlow);
  CHECK_FALSE(store.candidate(key, {{"bm", "65"}}));
  // Another process finds it.
  CHECK(Store(store.path()).find(key) == chosen);
}

TEST_CASE("sizes of a bucket share a choice, their own comes first", "[tuning][store]") {
  const TuningFolder folder;
  Store store(folder.file("cache.sqlite"));
  const auto tuned = [&](const Key& key, const Evaluated& e) {
    store.keep(key, e);
    return store.choose(key, "predicted");
  };
  tuned(key_for(8190), kSlow);
  REQUIRE(store.find(key_for(8191)));
  CHECK(store.find(key_for(8191))->key.sizes == "m=8190");
  CHECK_FALSE(store.find(key_for(8193)));           // the next bucket
  CHECK_FALSE(store.find(key_for(8191, "other")));  // another kernel
  tuned(key_for(8192), kFast);
  CHECK(store.find(key_for(8190))->configuration == kSlow.configuration);
  CHECK(store.find(key_for(8192))->configuration == kFast.configuration);
}

TEST_CASE("choices go to another cache as JSON", "[tuning][store]") {
  const TuningFolder folder;
  Store store(folder.file("a.sqlite"));
  store.keep(key_for(512), kFast);
  const auto chosen = store.choose(key_for(512), "predicted");
  const std::string json = store.exported();
  CHECK(entries_of(json, "a").size() == 1);
  CHECK(entries_of(store.exported("softmax"), "a").empty());
  Store other(folder.file("b.sqlite"));
  CHECK(other.import(json, "a.json") == 1);
  CHECK(other.find(key_for(512)) == chosen);
  CHECK(other.exported() == json);
  CHECK_THROWS_WITH(other.import("{\"schema\": \"tessera.run/1\"}", "a.json"),
                    Catch::Contains("a.json is \"tessera.run/1\", not tessera.tuning/1"));
  CHECK_THROWS_WITH(other.import("[", "a.json"), Catch::StartsWith("a.json: "));
  std::string cut = json;
  cut.replace(cut.find("\"how\""), 5, "\"who\"");
  CHECK_THROWS_WITH(other.import(cut, "a.json"), Catch::Contains("how"));
}

TEST_CASE("a cache of a newer schema, or that is none, is refused by name", "[tuning][store]") {
  const TuningFolder folder;
  const std::string newer = folder.file("newer.sqlite");
  { const Store made(newer); }
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(newer.c_str(), &database) == SQLITE_OK);
  sqlite3_exec(database, "PRAGMA user_version=99", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  CHECK_THROWS_WITH(Store(newer), Catch::Contains("newer.sqlite has schema 99"));
  const std::string text = folder.file("text.sqlite");
  std::ofstream(text) << std::string(5000, 'x');
  CHECK_THROWS_WITH(Store(text), Catch::Contains("text.sqlite: file is not a database"));
}

TEST_CASE("a cache of the first schema is taken over, with what it has", "[tuning][store]") {
  const TuningFolder folder;
  const std::string path = folder.file("old.sqlite");
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  const char* const old =
      "CREATE TABLE candidates(operation TEXT, device TEXT, fingerprint TEXT, sizes TEXT, dtype "
      "TEXT, "
      "mesh TEXT, configuration TEXT, seconds REAL NOT NULL, binds TEXT NOT NULL, reason TEXT NOT "
      "NULL, PRIMARY KEY(operation, device, fingerprint, sizes, dtype, mesh, configuration)) "
      "WITHOUT "
      "ROWID; CREATE TABLE choices(operation TEXT, device TEXT, fingerprint TEXT, sizes TEXT, "
      "shapes "
      "TEXT, dtype TEXT, mesh TEXT, configuration TEXT NOT NULL, seconds REAL NOT NULL, how TEXT "
      "NOT "
      "NULL, candidates INTEGER NOT NULL, UNIQUE(operation, device, fingerprint, sizes, dtype, "
      "mesh)); CREATE INDEX buckets ON choices(operation, device, fingerprint, shapes, dtype, "
      "mesh); "
      "INSERT INTO candidates VALUES('matmul', 'tpu-v5e', 'f', 'm=512', 'f32', '1', "
      "'{\"bm\":\"64\"}', 2e-3, 'HBM', ''); PRAGMA user_version=1";
  REQUIRE(sqlite3_exec(database, old, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  Store store(path);
  CHECK(store.candidates(key_for(512)) == std::vector<Evaluated>{kSlow});
  Evaluated measured = kFast;
  measured.interval = 1e-6;
  store.keep(key_for(512), measured);
  CHECK(Store(path).candidate(key_for(512), kFast.configuration) == measured);
}

TEST_CASE("threads and connections write to one cache at once", "[tuning][store]") {
  const TuningFolder folder;
  const std::string path = folder.file("cache.sqlite");
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  std::vector<std::thread> threads;
  Store shared(path);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Store own(path);
      for (int i = 0; i < kEach; ++i) {
        const Evaluated e{{{"bm", std::to_string(t * kEach + i)}}, 1. + t * kEach + i, "HBM", ""};
        (i % 2 == 0 ? own : shared).keep(key_for(512), e);
        own.choose(key_for(512), "predicted");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(shared.candidates(key_for(512)).size() == kThreads * kEach);
  CHECK(shared.find(key_for(512))->seconds == 1.);
}

TEST_CASE("a configuration that is none is said, with the file, and holds no lock",
          "[tuning][store]") {
  const TuningFolder folder;
  const std::string path = folder.file("cache.sqlite");
  Store store(path);
  store.keep(key_for(512), kFast);
  REQUIRE(store.choose(key_for(512), "predicted"));
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  for (const char* other : {"%", R"({"bm": 128})"}) {
    const std::string set = std::string("='") + other + "'";
    REQUIRE(sqlite3_exec(database, ("UPDATE candidates SET configuration" + set).c_str(), nullptr,
                         nullptr, nullptr) == SQLITE_OK);
    REQUIRE(sqlite3_exec(database, ("UPDATE choices SET configuration" + set).c_str(), nullptr,
                         nullptr, nullptr) == SQLITE_OK);
    const auto said = Catch::Matchers::Message(path + ": a configuration that is none: " + other);
    CHECK_THROWS_MATCHES(store.find(key_for(512)), InputError, said);
    CHECK_THROWS_MATCHES(store.candidates(key_for(512)), InputError, said);
    CHECK_THROWS_MATCHES(store.choose(key_for(512), "predicted"), InputError, said);
    CHECK_THROWS_MATCHES(store.exported(), InputError, said);
  }
  sqlite3_close(database);
  CHECK_NOTHROW(Store(path).keep(key_for(256), kFast));
}
