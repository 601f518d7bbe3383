// Where in the user's source an error arose. operator* of a ref cannot take a default argument that
// would carry its caller's line, so the line comes from the debug information (-g1 is enough),
// inlined frames included.
#include <execinfo.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/diagnostics/debug_lines.hpp"
#include "sim/diagnostics/line_cache.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera {

namespace {

std::string library_root() {
  std::string_view file = __FILE__;
  return std::string(file.substr(0, file.rfind("sim/diagnostics/")));
}

/// Paths are shown relative to tessera's sources or to the working directory.
std::string shorten(const std::string& path) {
  std::string normal = std::filesystem::path(path).lexically_normal().string();
  std::error_code error;
  const std::array<std::string, 2> roots{library_root(),
                                         std::filesystem::current_path(error).string() + "/"};
  for (const auto& root : roots) {
    if (!root.empty() && normal.starts_with(root)) return normal.substr(root.size());
  }
  return normal;
}

bool in_library(const std::string& path) {
  // What another library was built from, elsewhere: libc's "../sysdeps/...".
  std::error_code error;
  if (std::filesystem::path(path).is_relative() && !std::filesystem::exists(path, error))
    return true;
  const std::string normal = std::filesystem::path(path).lexically_normal().string();
  const std::string root = library_root();
  for (const char* folder : {"sim/", "memory_model/", "mosaic/", "cli/"}) {
    if (!root.empty() && normal.starts_with(root + folder)) return true;
    if (normal.find(std::string("/include/tessera/") + folder) != std::string::npos) return true;
  }
  // A compiler's and a system's headers.
  return normal.starts_with("/usr/include/") || normal.starts_with("/usr/lib/") ||
         normal.find("/include/c++/") != std::string::npos;
}

std::string excerpt(const std::string& path, unsigned line) {
  std::string text = shorten(path) + ":" + std::to_string(line);
  std::ifstream file(path);
  std::string content;
  for (unsigned i = 0; i < line; ++i) {
    if (!std::getline(file, content)) return text;
  }
  const std::size_t first = content.find_first_not_of(" \t");
  if (first == std::string::npos) return text;
  content = content.substr(first);
  const std::size_t last = content.find_last_not_of(" \t\r");
  return text + "  " + content.substr(0, last + 1);
}

}  // namespace

std::string source_excerpt(Here at) {
  if (at.line == 0) return "";
  return excerpt(at.file, static_cast<unsigned>(at.line));
}

namespace {
/// The first line outside tessera's own headers. A loop comes from few places: each is looked up
/// once a thread.
SourceLine line_of(const void* address) {
  static thread_local std::unordered_map<const void*, SourceLine> known;
  const auto [at, is_new] = known.try_emplace(address);
  if (!is_new) return at->second;
  for (const SourceLine& line : source_lines(address)) {
    if (line.file.empty() || in_library(line.file)) continue;
    return at->second = line;
  }
  return {};
}

std::string excerpt(const SourceLine& at) {
  return at.line == 0 ? "" : excerpt(at.file, static_cast<unsigned>(at.line));
}

/// The first line outside tessera's own headers of a stack; `known` says an address's, or asks what
/// it is given.
template <class Known>
SourceLine first_line(std::span<const void* const> addresses, Known&& known) {
  for (const void* address : addresses) {
    if (address == nullptr) break;
    // A return address follows its call.
    const void* call = static_cast<const std::byte*>(address) - 1;
    SourceLine line = known(call, [call] { return line_of(call); });
    if (line.line != 0) return line;
  }
  return {};
}

constexpr auto kAsk = [](const void*, const auto& find) { return find(); };
}  // namespace

std::string caller_excerpt() {
  if (step_context != nullptr && step_context->line != nullptr)
    return source_excerpt(*step_context->line);
  std::array<void*, 64> stack{};
  const int depth = backtrace(stack.data(), static_cast<int>(stack.size()));
  return excerpt(first_line({stack.data(), static_cast<std::size_t>(depth)}, kAsk));
}

SourceLine trace_line(std::span<const void* const> addresses) {
  return first_line(addresses, cached_line);
}

// Of a program that is about to end by a signal: nothing is cached.
std::string trace_excerpt(std::span<const void* const> addresses) {
  return excerpt(first_line(addresses, kAsk));
}

}  // namespace tessera
