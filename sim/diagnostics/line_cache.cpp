#include "sim/diagnostics/line_cache.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "memory_model/file.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

/// FNV-1a, of 64 bits.
std::uint64_t hash(const std::string& text) {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return h;
}

/// Of one library.
class Lines {
 public:
  explicit Lines(const std::string& library) {
    struct stat s {};
    if (stat(library.c_str(), &s) != 0) return;
    std::error_code error;
    key_ = fmt::format("{} {} {}.{} {}", library, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec,
                       fs::current_path(error).string());
    try {
      file_ = cache_folder("lines") + fmt::format("/{:016x}", hash(key_));
      constexpr std::size_t kMostBytes = std::size_t{1} << 24;
      if (fs::exists(file_, error)) read(read_file(file_, kMostBytes));
    } catch (const FileError&) {
      return;
    }
  }
  ~Lines() {
    if (!changed_ || file_.empty()) return;
    const std::string mine = file_ + ".tmp" + std::to_string(getpid());
    {
      std::ofstream out(mine);
      out << key_ << "\n";
      for (const auto& [offset, line] : at_)
        fmt::format_to(std::ostreambuf_iterator(out), "{:x} {} {}\n", offset, line.line, line.file);
      if (!out) return;
    }
    std::error_code error;
    fs::rename(mine, file_, error);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  const SourceLine& of(std::uintptr_t offset, const std::function<SourceLine()>& find) {
    const auto it = at_.find(offset);
    if (it != at_.end()) return it->second;
    changed_ = true;
    return at_.emplace(offset, find()).first->second;
  }

 private:
  void read(const std::string& text) {
    std::istringstream in(text);
    std::string line;
    if (!std::getline(in, line) || line != key_) return;  // another library of the same hash
    while (std::getline(in, line)) {
      std::istringstream words(line);
      std::uintptr_t offset = 0;
      SourceLine known;
      if (!(words >> std::hex >> offset >> std::dec >> known.line)) continue;
      words.get();
      std::getline(words, known.file);
      if (known.line == 0 || !known.file.empty()) at_.emplace(offset, known);
    }
  }

  std::string key_;
  std::string file_;
  std::map<std::uintptr_t, SourceLine> at_;
  bool changed_ = false;
};

}  // namespace

SourceLine cached_line(const void* address, const std::function<SourceLine()>& find) {
  static std::mutex mutex;
  static std::map<std::string, Lines> libraries;
  static std::unordered_map<const void*, SourceLine> known;  // which library it is in takes a while
  const std::scoped_lock lock(mutex);
  if (const auto it = known.find(address); it != known.end()) return it->second;
  Dl_info library{};
  if (dladdr(address, &library) == 0 || library.dli_fname == nullptr) return find();
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(address) -
                                reinterpret_cast<std::uintptr_t>(library.dli_fbase);
  std::error_code error;
  const std::string path = fs::absolute(library.dli_fname, error).string();
  return known[address] = libraries.try_emplace(path, path).first->second.of(offset, find);
}

}  // namespace tessera
