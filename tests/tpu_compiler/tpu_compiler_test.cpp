// The process that asks, with an interpreter that is a shell script: what is kept, what is late,
// what aborts. Google's compiler itself is asked in tests/python/test_check.py, where it is
// installed.
#include "tpu_compiler/tpu_compiler.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::tpu_compiler {
namespace {

namespace fs = std::filesystem;

/// A folder with a script that answers as ask.py does, and a cache.
class Fake {
 public:
  explicit Fake(
      const std::string& hello = R"({"libtpu":"1","jax":"2","library":"LIBRARY","terms":"T"})")
      : folder_(fs::temp_directory_path() / ("tessera-fake-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(folder_ / "library") << "first";
    std::string first = hello;
    if (const auto at = first.find("LIBRARY"); at != std::string::npos)
      first.replace(at, 7, (folder_ / "library").string());
    std::ofstream(folder_ / "python")
        << "#!/bin/bash\necho start >>" << folder_ / "asked"
        << "\necho '" << first << "'\nwhile read -r line; do\n  echo asked >>" << folder_ / "asked"
        << R"(
  case $line in
    *'"name":"good"'*) echo '{"accepted":true,"message":"","seconds":0.5,"vmem_bytes":4096,"spilled_bytes":0}' ;;
    *'"name":"bad"'*) echo '{"accepted":false,"message":"INTERNAL: E2001: CompileTimeX: no such type","seconds":1}' ;;
    *'"name":"aborts"'*) echo 'F1124 08:16:35.4 29 table.cc:714] Operation not supported' >&2; exit 134 ;;
    *) sleep 60 ;;
  esac
done
)";
    fs::permissions(folder_ / "python", fs::perms::owner_all);
  }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;
  ~Fake() { fs::remove_all(folder_); }

  Settings settings() const {
    Settings s;
    s.python = (folder_ / "python").string();
    s.cache_folder = (folder_ / "cache").string();
    return s;
  }
  /// Lines that it wrote: "start", "asked".
  std::string log() const {
    std::ifstream file(folder_ / "asked");
    std::string all;
    for (std::string line; std::getline(file, line);) all += (all.empty() ? "" : " ") + line;
    return all;
  }
  void change_library() const { std::ofstream(folder_ / "library") << "another one"; }

 private:
  fs::path folder_;
};

Question question(const std::string& name) {
  Question q;
  q.kernel = name;
  q.module = "module";
  q.config = "{}";
  q.chip = "v5e";
  q.operands = {{DType::f32, Shape{8, 128}}};
  q.results = {{DType::f32, Shape{8, 128}}};
  return q;
}

TEST_CASE("an answer is kept: the next process asks nobody", "[tpu_compiler]") {
  const Fake fake;
  {
    TpuCompiler compiler(fake.settings());
    const Verdict v = compiler.ask(question("good"));
    CHECK(v.kind == Verdict::Kind::accepted);
    CHECK(v.vmem_bytes == 4096);
    CHECK(!v.cached);
    CHECK(compiler.ask(question("good")).cached);
    CHECK(compiler.ask(question("bad")).sentence == "no such type");
    CHECK(compiler.version() == "libtpu 1, jax 2");
  }
  CHECK(fake.log() == "start asked asked");
  TpuCompiler again(fake.settings());
  CHECK(again.ask(question("good")).cached);
  CHECK(again.ask(question("bad")).kind == Verdict::Kind::refused);
  CHECK(fake.log() == "start asked asked");
}

TEST_CASE("another question, or another libtpu, is asked", "[tpu_compiler]") {
  const Fake fake;
  TpuCompiler(fake.settings()).ask(question("good"));
  Question other = question("good");
  SECTION("of another chip") { other.chip = "v4"; }
  SECTION("with other shapes") { other.operands[0].shape = Shape{16, 128}; }
  SECTION("of another module") { other.module = "modulf"; }
  CHECK(!TpuCompiler(fake.settings()).ask(other).cached);
  fake.change_library();
  const std::string before = fake.log();
  TpuCompiler(fake.settings()).ask(question("good"));
  CHECK(fake.log() == before + " start");  // the version is looked up, and is the same
}

TEST_CASE("a compiler that aborts has refused, and the next question finds another",
          "[tpu_compiler]") {
  const Fake fake;
  TpuCompiler compiler(fake.settings());
  const Verdict v = compiler.ask(question("aborts"));
  CHECK(v.kind == Verdict::Kind::refused);
  CHECK(v.sentence == "the compiler aborted: Operation not supported");
  CHECK(compiler.ask(question("good")).kind == Verdict::Kind::accepted);
  CHECK(fake.log() == "start asked start asked");
}

TEST_CASE("one that does not end is unknown, and is not kept", "[tpu_compiler]") {
  const Fake fake;
  Settings settings = fake.settings();
  settings.time_limit = 0.2;
  TpuCompiler compiler(settings);
  const Verdict v = compiler.ask(question("hangs"));
  CHECK(v.kind == Verdict::Kind::unknown);
  CHECK(v.sentence == "it did not end in 0.2 s");
  CHECK(!compiler.ask(question("hangs")).cached);
}

TEST_CASE("whose it is is said once", "[tpu_compiler]") {
  const Fake fake;
  Settings settings = fake.settings();
  std::string said;
  settings.note = [&](const std::string& text) { said += text; };
  TpuCompiler(settings).ask(question("good"));
  CHECK(said.find("its terms are Google's (T)") != std::string::npos);
  said.clear();
  TpuCompiler(settings).ask(question("bad"));
  CHECK(said.empty());
}

TEST_CASE("without it there is a word on what to install", "[tpu_compiler]") {
  const auto error_of = [](const Settings& settings) {
    try {
      TpuCompiler(settings).require();
    } catch (const InputError& e) {
      return e.text();
    }
    return std::string();
  };
  const Fake fake(R"({"missing":"libtpu"})");
  const std::string missing = error_of(fake.settings());
  CHECK(missing.find("error[no-tpu-compiler]: the TPU's compiler is not installed: ") == 0);
  CHECK(missing.find("has no libtpu") != std::string::npos);
  CHECK(missing.find("under Google's terms") != std::string::npos);
  CHECK(missing.find("TESSERA_TPU_PYTHON") != std::string::npos);
  Settings none;
  none.python = "no-such-python";
  CHECK(error_of(none).find("no Python interpreter no-such-python") != std::string::npos);
}

}  // namespace
}  // namespace tessera::tpu_compiler
