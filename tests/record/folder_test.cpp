// Records in a folder: whole lines from many writers, arrays once each, and what was changed since.
#include "record/folder.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string_view>

#include "memory_model/npy.hpp"
#include "sim/diagnostics/diagnostic.hpp"

using namespace tessera;
namespace fs = std::filesystem;

namespace {

struct Scratch {
  Scratch() : path(fs::temp_directory_path() / ("record_test." + std::to_string(getpid()))) {
    fs::create_directories(path);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { fs::remove_all(path); }
  fs::path path;
};

record::Record a_record(const std::string& operation) {
  record::Record r;
  r.time = "2026-01-31T12:00:00.000Z";
  r.process = 7;
  r.tessera = "1.2.3";
  r.operation = operation;
  r.frontend = "cpp";
  r.key = tuning::key_of(operation, "tpu-v5e", "0123456789abcdef", {{"m", 512}}, "f32", {2, 4});
  r.configuration = {{"bm", "128"}, {"bn", "\"x\""}};
  r.tier = "overlay";
  r.said = {{"explicit", "none given"}, {"overlay", "tuned.json"}};
  r.requested = "auto";
  r.ran = "interpret";
  r.why = "no \"CUDA\" device";
  r.device = "tpu-v5e";
  r.numerics = "exact";
  r.mesh = {2, 4};
  r.cores = 2;
  r.schedule = "random:3";
  r.inputs = {{"x", DType::bf16, {3, 4}, std::string(64, 'a'), ""}};
  r.outputs = {{"o", DType::f32, {}, std::string(64, 'b'), "arrays/bb/b.npy"}};
  r.hbm_read_bytes = 1;
  r.hbm_write_bytes = 2;
  r.remote_bytes = 3;
  r.predicted_seconds = 1e-6;
  r.diagnostics = {"mismatch"};
  r.arguments = {"matmul", "m=512"};
  r.within = "module.function";
  r.seconds = 0.5;
  return r;
}

int count_in(const fs::path& folder) {
  int files = 0;
  for (const auto& each : fs::recursive_directory_iterator(folder))
    files += each.is_regular_file() ? 1 : 0;
  return files;
}

}  // namespace

TEST_CASE("a record is read as it was written", "[record]") {
  const Scratch at;
  const record::Folder folder(at.path / "calls");
  record::Record plain = a_record("other");
  plain.tier.clear();
  plain.said.clear();
  plain.schedule.clear();
  plain.within.clear();
  plain.predicted_seconds = 0;
  plain.inputs.front().sha256.clear();
  folder.append(a_record("matmul"));
  folder.append(plain);
  const auto read = record::Folder::existing(at.path / "calls").read();
  CHECK(read.torn == 0);
  REQUIRE(read.records.size() == 2);
  CHECK(line_of(read.records[0]) == line_of(a_record("matmul")));
  CHECK(read.records[0] == a_record("matmul"));
  CHECK(read.records[1] == plain);
}

TEST_CASE("a line that was cut off is passed over, and spoils no other", "[record]") {
  const Scratch at;
  const record::Folder folder(at.path / "calls");
  folder.append(a_record("first"));
  const std::string line = line_of(a_record("second"));
  std::ofstream(at.path / "calls/records.jsonl", std::ios::app) << line.substr(0, line.size() / 2);
  CHECK(folder.read().torn == 1);
  CHECK(folder.read().records.size() == 1);
  folder.append(a_record("third"));
  const auto read = folder.read();
  CHECK(read.torn == 1);
  REQUIRE(read.records.size() == 2);
  CHECK(read.records[1].operation == "third");
}

TEST_CASE("a damaged line is read or refused by name", "[record]") {
  const std::string whole = line_of(a_record("matmul"));
  std::mt19937 draw(1);
  int refused = 0;
  int read = 0;
  for (int n = 0; n < 4000; ++n) {
    std::string line = whole;
    for (unsigned hits = 1 + draw() % 3; hits > 0; --hits) {
      const std::size_t at = draw() % line.size();
      constexpr std::string_view kBytes = "0123456789\"{}[],:-.eE\\nultrfas \x80";
      if (draw() % 4 == 0)
        line.erase(at, 1 + draw() % 20);
      else
        line[at] = kBytes[draw() % kBytes.size()];
      if (line.empty()) line = "x";
    }
    try {
      static_cast<void>(record::parse(line, "line"));
      ++read;
    } catch (const InputError& error) {
      ++refused;
      CHECK_THAT(error.what(), Catch::StartsWith("line: "));
    }
  }
  CHECK(refused > 1000);
  CHECK(read > 100);
}

TEST_CASE("lines of many processes are whole, and none is lost", "[record]") {
  constexpr int kProcesses = 6;
  constexpr int kLines = 200;
  const Scratch at;
  const std::string path = at.path / "calls";
  const Array array = f32_array({2, 2}, {1, 2, 3, 4});
  for (int p = 0; p < kProcesses; ++p) {
    if (fork() != 0) continue;
    const record::Folder folder(path);
    for (int n = 0; n < kLines; ++n) {
      record::Record r = a_record(std::to_string(p) + " " + std::to_string(n));
      r.why = std::string(static_cast<std::size_t>(n) * 97, 'x');  // of any length
      r.outputs = {folder.note("o", array, true)};
      folder.append(r);
    }
    _exit(0);
  }
  for (int p = 0; p < kProcesses; ++p) {
    int status = 1;
    wait(&status);
    CHECK(status == 0);
  }
  const auto read = record::Folder::existing(path).read();
  CHECK(read.torn == 0);
  CHECK(read.records.size() == kProcesses * kLines);
  std::map<std::string, int> operations;
  for (const auto& r : read.records) ++operations[r.operation];
  CHECK(operations.size() == kProcesses * kLines);
  CHECK(count_in(at.path / "calls/arrays") == 1);
}

TEST_CASE("writers that are killed leave whole lines, and what they name", "[record]") {
  constexpr int kKilled = 20;
  constexpr int kElements = 200;
  constexpr int kMost = 20;  // a disk is not without end
  const Scratch at;
  const std::string path = at.path / "calls";
  std::vector<pid_t> writers;
  std::mt19937 draw(1);
  std::size_t lines = 0;
  for (int n = 0; n < kKilled; ++n) {
    while (writers.size() < 3) {
      const auto seed = static_cast<float>(n * 3 + static_cast<int>(writers.size()));
      const pid_t writer = fork();
      if (writer != 0) {
        writers.push_back(writer);
        continue;
      }
      alarm(120);  // should nobody kill it
      const record::Folder folder(path);
      for (int k = 0; k < kMost; ++k) {
        const std::vector<float> values(kElements, seed + 0x1p-10f * static_cast<float>(k % 100));
        record::Record r = a_record("killed");
        r.why = std::string(static_cast<std::size_t>(k % 5) * 1024, 'x');
        r.outputs = {folder.note("o", f32_array({kElements}, values), true)};
        r.arguments = {folder.keep_call({{"in0.npy", r.outputs.front().file}})};
        folder.append(r);
      }
      pause();
    }
    usleep(std::uniform_int_distribution<unsigned>(0, 30'000)(draw));
    const std::size_t victim = draw() % writers.size();
    kill(writers[victim], SIGKILL);
    waitpid(writers[victim], nullptr, 0);
    writers.erase(writers.begin() + static_cast<std::ptrdiff_t>(victim));
    if (!fs::exists(at.path / "calls/records.jsonl")) continue;
    const std::size_t now = record::Folder::existing(path).read().records.size();
    CHECK(now >= lines);  // nothing is lost
    lines = now;
  }
  for (const pid_t writer : writers) {
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
  }
  const record::Folder folder(path);
  folder.append(a_record("the last"));
  const auto read = folder.read();
  CHECK(read.torn <= kKilled + 3);
  REQUIRE(read.records.size() > lines);
  CHECK(read.records.back().operation == "the last");
  int wrong = 0;
  for (std::size_t i = 0; i + 1 < read.records.size(); i += 7) {
    const record::Record& r = read.records[i];
    wrong += folder.array(r.outputs.front()).elems() == kElements ? 0 : 1;
    wrong += fs::exists(at.path / "calls" / r.arguments.front() / "in0.npy") ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("an array is kept once, by its bytes, type and shape", "[record]") {
  const Scratch at;
  const record::Folder folder(at.path / "calls");
  const Array array = f32_array({2, 2}, {1, 2, 3, 4});
  const record::Noted square = folder.note("x", array, true);
  CHECK(folder.note("y", array, true).file == square.file);
  CHECK(count_in(at.path / "calls/arrays") == 1);
  const record::Noted row = folder.note("x", f32_array({4}, {1, 2, 3, 4}), true);
  CHECK(row.sha256 == square.sha256);
  CHECK(row.file != square.file);
  CHECK(folder.note("z", f32_array({1}, {5}), false).file.empty());
  CHECK(count_in(at.path / "calls/arrays") == 2);
  CHECK(folder.array(square).to_doubles() == std::vector<double>{1, 2, 3, 4});

  write_npy(at.path / "calls" / square.file, f32_array({2, 2}, {1, 2, 3, 5}));
  CHECK_THROWS_WITH(folder.array(square), Catch::Contains("was changed"));
  record::Noted outside = row;
  outside.file = "../" + outside.file;
  CHECK_THROWS_AS(folder.array(outside), InputError);
}

TEST_CASE("a call's folder has links to its files, and is there once", "[record]") {
  const Scratch at;
  const record::Folder folder(at.path / "calls");
  const std::string module = folder.keep("a module", ".mlir");
  const record::Noted x = folder.note("in0", f32_array({1}, {5}), true);
  const record::Noted y = folder.note("in0", f32_array({1}, {6}), true);
  const std::string call = folder.keep_call({{"kernel.mlir", module}, {"in0.npy", x.file}});
  CHECK(folder.keep_call({{"kernel.mlir", module}, {"in0.npy", x.file}}) == call);
  const std::string other = folder.keep_call({{"kernel.mlir", module}, {"in0.npy", y.file}});
  CHECK(other != call);
  CHECK(read_npy(at.path / "calls" / call / "in0.npy", DType::f32).at(0) == 5);
  CHECK(read_npy(at.path / "calls" / other / "in0.npy", DType::f32).at(0) == 6);
  std::ifstream file(at.path / "calls" / call / "kernel.mlir");
  std::string text;
  std::getline(file, text);
  CHECK(text == "a module");
}

TEST_CASE("what is no folder of records is refused", "[record]") {
  const Scratch at;
  std::ofstream(at.path / "notes.txt") << "mine";
  CHECK_THROWS_WITH(record::Folder(at.path), Catch::Contains("holds something else"));
  CHECK_THROWS_WITH(record::Folder(at.path / "notes.txt"), Catch::Contains("is a file"));
  CHECK_THROWS_WITH(record::Folder::existing(at.path), Catch::Contains("holds no records"));
  const record::Folder folder(at.path / "calls");
  CHECK(folder.read().records.empty());
  std::ofstream(at.path / "calls/records.jsonl") << R"({"schema": "tessera.record/2"})"
                                                 << "\n";
  CHECK_THROWS_WITH(folder.read(), Catch::Contains("records.jsonl:1: its schema is"));
  std::ofstream(at.path / "calls/records.jsonl") << R"({"schema": "tessera.record/1"})"
                                                 << "\n";
  CHECK_THROWS_WITH(folder.read(), Catch::Contains("records.jsonl:1: "));
}
