// Every kind of file that the command line reads, changed in ways that somebody might: whatever is
// in it, a command ends within seconds, with exit code 0 to 3, and no control character of the file
// reaches the terminal.
//
// RC_PARAMS says how many changes of each kind of file; scripts/fuzz tries for hours. Arguments are
// parts of names of kinds: those alone.
#include <rapidcheck.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/app.hpp"
#include "cli/signals.hpp"
#include "golden/sha256.hpp"
#include "tests/fuzz/mutate.hpp"
#include "tests/fuzz/worker.hpp"

/// A sanitizer's exit code is no answer.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "exitcode=99";
}
extern "C" const char* __ubsan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "exitcode=99";
}

namespace tessera::cli {
const KernelHandle& builtin_add_vectors();
}  // namespace tessera::cli

namespace tessera::fuzz {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Files are the same for all: one will do, and compiles in a fraction of the time.
const cli::Kernels& kernels() {
  static const cli::Kernels one{cli::builtin_add_vectors()};
  return one;
}

/// A command of the command line, in a process that it shares with others of its kind.
Worker worker(const fs::path& folder, const std::vector<std::string>& words) {
  const auto command = [words = words]() mutable {
    std::vector<std::string> own{"tessera"};
    own.insert(own.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (auto& word : own) argv.push_back(word.data());
    const int code = cli::run_app(static_cast<int>(argv.size()), argv.data(), kernels());
    cli::unlimit_time();
    return code;
  };
  return {folder / "log", command, [] { return cli::stop_flag() == Stop::none; }};
}
Said run(const fs::path& folder, const std::vector<std::string>& words) {
  return worker(folder, words).ask();
}

void expect_an_answer(const Said& said) {
  RC_LOG() << "exit " << said.code << " after " << said.seconds << " s:\n"
           << said.text.substr(0, 2000) << '\n';
  RC_ASSERT(said.code >= 0);
  RC_ASSERT(said.code <= 3);
  for (std::size_t i = 0; i < said.text.size(); ++i) {
    const auto c = static_cast<unsigned char>(said.text[i]);
    const bool c1 = c == 0xc2 && i + 1 < said.text.size() &&
                    static_cast<unsigned char>(said.text[i + 1]) < 0xa0;
    RC_ASSERT((c >= 0x20 || c == '\n') && c != 0x7f && !c1);
  }
}

rc::Gen<std::vector<Mutation>> mutations(int most) {
  const auto number = rc::gen::arbitrary<unsigned>();
  return rc::gen::resize(most, rc::gen::container<std::vector<Mutation>>(rc::gen::build<Mutation>(
                                   rc::gen::set(&Mutation::where, rc::gen::resize(1000, number)),
                                   rc::gen::set(&Mutation::what, rc::gen::resize(1000, number)),
                                   rc::gen::set(&Mutation::value, rc::gen::resize(1000, number)))));
}

/// With the SHA-256 that a golden's manifest has of itself, if it is one.
std::string sealed(std::string text) {
  const std::string key = "\"manifest_sha256\": \"";
  constexpr std::size_t kDigits = 64;
  const std::size_t at = text.find(key) + key.size();
  if (text.find(key) == std::string::npos || at + kDigits > text.size()) return text;
  text.replace(at, kDigits, kDigits, '0');
  return text.replace(at, kDigits, golden::sha256(text.data(), text.size()));
}

/// The text with changes of its JSON.
std::string changed(const std::string& json, const std::vector<Mutation>& of_values, int indent) {
  Json j = Json::parse(json);
  for (const Mutation& m : of_values) mutate(j, m);
  return sealed(j.dump(indent, ' ', false, Json::error_handler_t::replace));
}

/// line: JSON in one line, as a recording's.
enum class Form : std::uint8_t { bytes, json, line, text };

/// A command that reads a file again and again, each time another.
bool fuzz(const std::string& what, const fs::path& folder, const fs::path& file, Form form,
          const std::vector<std::string>& command) {
  const std::string original = bytes_of(file);
  RC_ASSERT(!original.empty());
  Worker answers = worker(folder, command);
  const bool ok = rc::check("a changed " + what + " gets an answer", [&] {
    const auto of_bytes = *mutations(2);
    std::string text = original;
    const bool by_form = *rc::gen::inRange(0, 10) > 0;
    if ((form == Form::json || form == Form::line) && by_form) {
      text = changed(original, *mutations(4), form == Form::line ? -1 : 1);
    } else if (form == Form::text && by_form) {
      for (const Mutation& m : *mutations(3)) mutate_words(text, m);
    } else {
      for (const Mutation& m : of_bytes) mutate(text, m);
    }
    write(file, text);
    expect_an_answer(answers.ask());
  });
  write(file, original);
  return ok;
}

}  // namespace
}  // namespace tessera::fuzz

int main(int argc, char** argv) {
  using namespace tessera::fuzz;
  std::string pattern = (fs::temp_directory_path() / "tessera-fuzz-XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  struct Remove {
    fs::path path;
    ~Remove() { fs::remove_all(path); }
  } const remove{folder};
  const auto in = [&](const char* name) { return (folder / name).string(); };

  bool ok = true;
  const auto each = [&](const std::string& what, const std::string& file, Form form,
                        const std::vector<std::string>& command) {
    const bool wanted = std::any_of(argv + std::min(1, argc), argv + argc, [&](const char* part) {
      return what.find(part) != std::string::npos;
    });
    if (argc > 1 && !wanted) return;
    const Said unchanged = run(folder, command);
    if (unchanged.code != 0) {
      std::fprintf(stderr, "%s: exit %d\n%s", what.c_str(), unchanged.code, unchanged.text.c_str());
      ok = false;
      return;
    }
    ok = fuzz(what, folder, file, form, command) && ok;
  };
  const std::vector<std::string> small{"add_vectors", "n=2048", "--seed", "1"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };

  for (const char* device : {"tpu-v4", "h100"}) {
    write(in("device.json"), tessera::load_device(device).json);
    each(std::string("file of ") + device, in("device.json"), Form::json,
         with(with({"run"}, small), {"--device", in("device.json"), "--timeline"}));
  }
  each("device file that is shown", in("device.json"), Form::json, {"devices", in("device.json")});

  run(folder, with(with({"run"}, small), {"--json", in("a.json"), "--output", in("arrays")}));
  fs::copy_file(in("a.json"), in("b.json"));
  each("report", in("b.json"), Form::json, {"compare", in("a.json"), in("b.json")});

  fs::copy_file(in("arrays/o.npy"), in("x.npy"));
  each("array", in("x.npy"), Form::bytes,
       with(with({"run"}, small), {"--input", "x=" + in("x.npy")}));

  run(folder, with(with({"golden", "make"}, small), {"--out", in("golden")}));
  each("golden", in("golden/manifest.json"), Form::json,
       {"golden", "check", in("golden"), "--outputs", in("golden/outputs")});
  for (const char* file : {"outputs/o.npy", "bounds/o.npy", "steps.npy"}) {
    each("golden's " + std::string(file), in("golden/") + file, Form::bytes,
         {"golden", "check", in("golden"), "--outputs", in("golden/outputs")});
  }

  run(folder, with(with({"run"}, small), {"--record", in("recording")}));
  const std::vector<std::string> replay{"--time-limit", "5"};
  each("recording", in("recording/records.jsonl"), Form::line,
       with({"replay", in("recording")}, replay));

  run(folder, with(with({"tune"}, {"add_vectors", "n=2048"}), {"--cache", in("cache.db")}));
  run(folder, {"tune", "--cache", in("cache.db"), "--export", in("choices.json")});
  each("file of choices", in("choices.json"), Form::json,
       with(with({"run"}, small),
            {"--tuned", "--overlay", in("choices.json"), "--cache", in("empty.db")}));
  each(
      "file of choices that is told of", in("choices.json"), Form::json,
      {"why", "add_vectors", "n=2048", "--overlay", in("choices.json"), "--cache", in("empty.db")});
  each("file of choices that is imported", in("choices.json"), Form::json,
       {"tune", "--import", in("choices.json"), "--cache", in("filled.db")});
  each("tuning cache", in("cache.db"), Form::bytes,
       {"why", "add_vectors", "n=2048", "--cache", in("cache.db")});
  if (!TESSERA_FUZZ_MODULES) return ok ? 0 : 1;  // built without MLIR
  const fs::path seeds = TESSERA_FUZZ_SEEDS;
  fs::copy(seeds / "call", in("call"));
  const std::vector<std::string> call{"run", in("call"), "--time-limit", "5"};
  each("call's meta.json", in("call/meta.json"), Form::json, call);
  each("call's config.json", in("call/config.json"), Form::json, call);
  each("call's array", in("call/in0.npy"), Form::bytes, call);
  each("module of text", in("call/kernel.mlir"), Form::text, call);
  each("module of text, dry", in("call/kernel.mlir"), Form::text, with(call, {"--dry"}));
  write(in("call/device.json"), tessera::load_device("tpu-v5e").json);
  each("call's device file", in("call/device.json"), Form::json, call);
  run(folder, with(call, {"--record", in("calls")}));
  each("recording of a call", in("calls/records.jsonl"), Form::line,
       with({"replay", in("calls")}, replay));
  run(folder, {"golden", "make", in("call"), "--out", in("golden_call")});
  const std::vector<std::string> judge{"golden", "check", in("golden_call"), "--outputs",
                                       in("golden_call/outputs")};
  for (const char* file : {"manifest.json", "inputs/meta.json", "inputs/config.json"})
    each("golden of a call: " + std::string(file), in("golden_call/") + file, Form::json, judge);
  fs::copy(seeds / "program.mlir", in("program.mlir"));
  each("program with kernels", in("program.mlir"), Form::bytes,
       {"extract", in("program.mlir"), "--output", in("kernels")});
  fs::copy(seeds / "../pallas/rich.mlirbc", in("rich.mlirbc"));
  each("module of bytecode", in("rich.mlirbc"), Form::bytes, {"show", in("rich.mlirbc")});
  fs::copy(seeds / "launch", in("launch"));
  const std::vector<std::string> launch{"run", in("launch"), "--time-limit", "5"};
  each("launch's meta.json", in("launch/meta.json"), Form::json, launch);
  each("launch's array", in("launch/in0.npy"), Form::bytes, launch);
  each("launch's layouts", in("launch/layouts.json"), Form::json, launch);
  each("launch's module", in("launch/kernel.generic.mlir"), Form::text, launch);
  return ok ? 0 : 1;
}
