#include "tpu_compiler/tpu_compiler.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "golden/sha256.hpp"
#include "memory_model/file.hpp"
#include "memory_model/npy.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "tpu_compiler/child.hpp"
#include "tpu_compiler/script.hpp"

namespace tessera::tpu_compiler {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMostBytesOfAnswer = std::size_t{1} << 24;
/// libtpu is hundreds of megabytes: its first page may be on a slow disk.
constexpr double kStartLimit = 120;

std::string environment(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

std::string default_cache() {
  std::string base = environment("XDG_CACHE_HOME");
  if (base.empty() && !environment("HOME").empty()) base = environment("HOME") + "/.cache";
  return base.empty() ? "" : base + "/tessera/tpu-compiler";
}

/// As MLIR writes it. Mosaic's integers have no sign; a custom call has its booleans in words.
std::string element_type(DType d) {
  switch (d) {
    case DType::f8e4m3fn:
      return "f8E4M3FN";
    case DType::f8e5m2:
      return "f8E5M2";
    case DType::f4e2m1fn:
      return "f4E2M1FN";
    case DType::f8e8m0fnu:
      return "f8E8M0FNU";
    case DType::f8e4m3b11fnuz:
      return "f8E4M3B11FNUZ";
    case DType::boolean:
      return "i32";
    default:
      break;
  }
  const std::string own = name(d);
  return own.starts_with('u') ? "i" + own.substr(1) : own;
}

Json described(const std::vector<Question::Value>& values) {
  Json list = Json::array();
  for (const auto& v : values) {
    Json shape = Json::array();
    for (int d = 0; d < v.shape.rank; ++d) shape.push_back(v.shape[d]);
    list.push_back({element_type(v.dtype), shape});
  }
  return list;
}

std::string base64(const std::string& bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += k <= n ? kDigits[word >> (18 - 6 * k) & 63U] : '=';
  }
  return text;
}

std::string request_of(const Question& q, Settings::Listings listings) {
  const Json config = Json::parse(q.config.empty() ? "{}" : q.config, nullptr, false);
  Json aliases = Json::array();
  for (const auto& [operand, result] : q.aliases) aliases.push_back({operand, result});
  return Json{{"chip", q.chip},
              {"listings", static_cast<int>(listings)},
              {"name", q.kernel},
              {"body", base64(q.module)},
              {"config", config.is_object() ? config : Json::object()},
              {"operands", described(q.operands)},
              {"results", described(q.results)},
              {"aliases", aliases}}
      .dump();
}

/// A file of the cache; null if there is none, or it is none of ours.
Json read_kept(const std::string& path) {
  try {
    if (std::error_code error; !fs::exists(path, error)) return {};
    const Json json = Json::parse(read_file(path, kMostBytesOfAnswer), nullptr, false);
    return json.is_object() ? json : Json();
  } catch (const FileError&) {
    return {};
  }
}

/// What tells one file from another of the same name.
std::string stamp_of(const std::string& path) {
  struct stat s {};
  if (path.empty() || stat(path.c_str(), &s) != 0) return "";
  return fmt::format("{} {} {}", s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

/// The path that a shell would take.
std::string resolved(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const std::string path = environment("PATH");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    std::string candidate = path.substr(begin, end - begin) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return "";
}

std::optional<std::int64_t> number(const Json& json, const char* what) {
  const auto it = json.find(what);
  if (it == json.end() || !it->is_number_integer()) return {};
  return it->get<std::int64_t>();
}

}  // namespace

class TpuCompiler::Impl {
 public:
  explicit Impl(Settings settings) : settings_(std::move(settings)) {
    std::string python = settings_.python;
    if (python.empty()) python = environment("TESSERA_TPU_PYTHON");
    if (python.empty()) python = "python3";
    python_ = resolved(python);
    if (python_.empty() || access(python_.c_str(), X_OK) != 0)
      throw InputError("no-tpu-compiler", "no Python interpreter " + python, kHowToName);
    cache_ = settings_.cache_folder.empty() ? default_cache() : settings_.cache_folder;
  }

  void require() {
    recall_version();
    if (version_.empty()) start();
  }

  Verdict ask(const Question& q) {
    const std::string request = request_of(q, settings_.listings);
    recall_version();
    if (!version_.empty()) {
      if (Json kept = read_kept(answer_file(request)); kept.is_object())
        return verdict_of(kept, true);
    }
    if (!child_) start();  // says the version, if it was not known
    if (Json kept = read_kept(answer_file(request)); kept.is_object())
      return verdict_of(kept, true);
    const Child::Answer answer = child_->ask(request, settings_.time_limit);
    switch (answer.how) {
      case Child::How::line: {
        Json json = Json::parse(answer.text, nullptr, false);
        if (!json.is_object()) json = {{"accepted", false}, {"message", answer.text}};
        keep(answer_file(request), json);
        return verdict_of(json, false);
      }
      case Child::How::ended: {
        child_.reset();
        const std::string words = last_words(answer.text);
        const Json json = {{"accepted", false},
                           {"seconds", answer.seconds},
                           {"aborted", words.empty() ? "it gave no reason" : words}};
        keep(answer_file(request), json);
        return verdict_of(json, false);
      }
      case Child::How::late:
        break;
    }
    child_.reset();
    Verdict late;
    late.seconds = answer.seconds;
    late.sentence = fmt::format("it did not end in {:g} s", settings_.time_limit);
    return late;
  }

  std::string version() const { return version_; }

 private:
  static constexpr const char* kHowToName =
      "--python FILE or TESSERA_TPU_PYTHON names an interpreter that has jax and libtpu";

  /// Without starting Python: what this interpreter said the last time, if its libtpu is the same.
  void recall_version() {
    if (!version_.empty() || cache_.empty()) return;
    const Json kept = read_kept(interpreter_file());
    if (!kept.is_object() || kept.value("stamp", "") != stamp_of(kept.value("library", "")) ||
        kept.value("stamp", "").empty())
      return;
    version_ = kept.value("version", "");
  }

  void start() {
    std::vector<std::string> words;
    if (settings_.listings == Settings::Listings::schedule) words.emplace_back("schedule");
    child_ = std::make_unique<Child>(python_, kScript,
                                     settings_.listings != Settings::Listings::none, words);
    const Child::Answer hello = child_->read(kStartLimit);
    const Json json =
        hello.how == Child::How::line ? Json::parse(hello.text, nullptr, false) : Json();
    const std::string install =
        "it is Google's, under Google's terms, and no part of tessera: " + python_ +
        " -m pip install 'jax==0.10.2' 'libtpu==0.0.42.*'; " + kHowToName;
    if (!json.is_object()) {
      child_.reset();
      throw InputError("no-tpu-compiler", python_ + " cannot run: " + last_line(hello.text),
                       install);
    }
    if (json.contains("missing")) {
      child_.reset();
      throw InputError("no-tpu-compiler",
                       "the TPU's compiler is not installed: " + python_ + " has no " +
                           printable(json.value("missing", "libtpu")),
                       install);
    }
    version_ = "libtpu " + json.value("libtpu", "?") + ", jax " + json.value("jax", "?");
    const std::string library = json.value("library", "");
    const bool first = !read_kept(interpreter_file()).is_object();
    if (first && settings_.note) {
      settings_.note(
          fmt::format("asking {} in {}, which you installed; its terms are Google's ({})", version_,
                      python_, json.value("terms", "see its package")));
    }
    keep(interpreter_file(), {{"python", python_},
                              {"version", version_},
                              {"library", library},
                              {"stamp", stamp_of(library)}});
  }

  static std::string last_line(const std::string& text) {
    std::size_t end = text.size();
    while (end > 0 && text[end - 1] == '\n') --end;
    const auto newline = text.rfind('\n', end == 0 ? 0 : end - 1);
    const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
    return end == 0 ? "it ended without a word" : printable(text.substr(begin, end - begin));
  }

  std::string interpreter_file() const {
    return cache_ + "/python-" + golden::sha256(python_.data(), python_.size()).substr(0, 16) +
           ".json";
  }
  std::string answer_file(const std::string& request) const {
    const std::string key = version_ + "\n" + request;
    return cache_ + "/" + golden::sha256(key.data(), key.size()).substr(0, 32) + ".json";
  }

  /// A cache that cannot be written is none.
  void keep(const std::string& path, const Json& json) const {
    if (cache_.empty()) return;
    std::error_code error;
    fs::create_directories(cache_, error);
    if (error) return;
    try {
      write_file_atomically(path, json.dump() + "\n");
    } catch (const std::runtime_error&) {
    }
  }

  static Verdict verdict_of(const Json& json, bool cached) {
    Verdict v;
    v.cached = cached;
    v.seconds = json.value("seconds", 0.0);
    if (json.contains("aborted")) {
      v.kind = Verdict::Kind::refused;
      v.sentence = "the compiler aborted: " + json.value("aborted", "");
      v.message = v.sentence;
      return v;
    }
    v.kind = json.value("accepted", false) ? Verdict::Kind::accepted : Verdict::Kind::refused;
    if (v.kind == Verdict::Kind::refused) read_message(json.value("message", ""), v);
    v.vmem_bytes = number(json, "vmem_bytes");
    v.spilled_bytes = number(json, "spilled_bytes");
    v.bundles = json.value("bundles", "");
    v.utilization = json.value("utilization", "");
    return v;
  }

  Settings settings_;
  std::string python_;
  std::string cache_;
  std::string version_;
  std::unique_ptr<Child> child_;
};

TpuCompiler::TpuCompiler(Settings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {}
TpuCompiler::~TpuCompiler() = default;
void TpuCompiler::require() { impl_->require(); }
Verdict TpuCompiler::ask(const Question& question) { return impl_->ask(question); }
std::string TpuCompiler::version() const { return impl_->version(); }
std::string TpuCompiler::libtpu() const {
  constexpr std::string_view kName = "libtpu ";
  const std::string all = version();
  return all.starts_with(kName) ? all.substr(kName.size(), all.find(',') - kName.size()) : "";
}

}  // namespace tessera::tpu_compiler
