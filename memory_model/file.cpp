#include "memory_model/file.hpp"

#include <signal.h>
#include <sys/auxv.h>
#include <sys/types.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tessera {

std::string read_file(const std::string& path, std::size_t most_bytes) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  if (!file || std::filesystem::is_directory(path, error))
    throw FileError(path + ": cannot be read");
  std::string bytes;
  // Not by the size that the file system says: a device has none, and may never end.
  constexpr std::size_t kPart = std::size_t{1} << 16;
  for (std::size_t read = 0; file && read <= most_bytes; read = bytes.size()) {
    bytes.resize(read + kPart);
    file.read(bytes.data() + read, kPart);
    bytes.resize(read + static_cast<std::size_t>(file.gcount()));
  }
  if (bytes.size() > most_bytes) {
    throw FileError(path + ": is larger than the " + std::to_string(most_bytes) +
                    " bytes that such a file may have");
  }
  return bytes;
}

void sweep(const std::string& path, const std::string& mark) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::absolute(path, error).parent_path();
  const std::string start = fs::path(path).filename().string() + mark;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start)) continue;
    pid_t writer = 0;
    const char* const end = name.data() + name.size();
    const auto [last, wrong] = std::from_chars(name.data() + start.size(), end, writer);
    const bool one = wrong == std::errc() && last == end && writer > 0;
    if (one && kill(writer, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), error);
  }
}

std::string printable(const std::string& text) {
  std::string shown;
  const auto code = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size(); ++i) {
    // U+0080 to U+009F are control characters too.
    const bool c1 =
        i + 1 < text.size() && code(i) == 0xc2 && code(i + 1) >= 0x80 && code(i + 1) < 0xa0;
    const bool control = (code(i) < 0x20 && text[i] != '\n') || code(i) == 0x7f || c1;
    if (!control) {
      shown += text[i];
      continue;
    }
    constexpr const char* kDigits = "0123456789abcdef";
    const unsigned c = c1 ? code(++i) : code(i);
    shown += "\\x";
    shown += kDigits[c >> 4];
    shown += kDigits[c & 15];
  }
  return shown;
}

std::string cache_folder(const std::string& part) {
  namespace fs = std::filesystem;
  const auto environment = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string base = environment("XDG_CACHE_HOME");
  if (base.empty())
    base = environment("HOME").empty() ? fs::temp_directory_path().string()
                                       : environment("HOME") + "/.cache";
  const fs::path folder = fs::path(base) / "tessera" / part;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw FileError(folder.string() + ": " + error.message() +
                    "; XDG_CACHE_HOME names another place");
  return folder.string();
}

std::string program_file() {
  static const std::string file = [] {
    std::error_code error;
    const auto linked = std::filesystem::read_symlink("/proc/self/exe", error);
    if (!error) return linked.string();
    const auto* const started = reinterpret_cast<const char*>(getauxval(AT_EXECFN));  // NOLINT
    return started == nullptr ? "" : std::filesystem::canonical(started, error).string();
  }();
  return file;
}

std::string program_folder() {
  return std::filesystem::path(program_file()).parent_path().string();
}

}  // namespace tessera
