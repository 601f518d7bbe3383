// Where in the user's source an error arose. operator* of a ref cannot take a default argument that
// would carry its caller's line, so the line comes from the debug information (-g1 is enough),
// inlined frames included.
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <unordered_map>
#include <vector>

#define BACKWARD_HAS_DW 1
#include <backward.hpp>

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
/// Reads the debug information once a thread.
backward::TraceResolver& the_resolver() {
  static thread_local backward::TraceResolver resolver;
  return resolver;
}

/// The first line outside tessera's own headers.
SourceLine first_outside(const backward::ResolvedTrace& trace) {
  // The innermost position of a frame is its source; the calls that inlined it follow, inner first.
  if (!trace.source.filename.empty() && !in_library(trace.source.filename))
    return {trace.source.filename, static_cast<int>(trace.source.line)};
  for (const auto& call : trace.inliners) {
    if (!call.filename.empty() && !in_library(call.filename))
      return {call.filename, static_cast<int>(call.line)};
  }
  return {};
}

/// The same of a frame whose stack the resolver has loaded. Searching the debug information takes a
/// millisecond, and a loop comes from few places: each is looked up once a thread.
SourceLine line_of(const backward::Trace& frame) {
  static thread_local std::unordered_map<const void*, SourceLine> known;
  const auto [at, is_new] = known.try_emplace(frame.addr);
  if (is_new) at->second = first_outside(the_resolver().resolve(frame));
  return at->second;
}

std::string excerpt(const SourceLine& at) {
  return at.line == 0 ? "" : excerpt(at.file, static_cast<unsigned>(at.line));
}
}  // namespace

std::string caller_excerpt() {
  if (step_context != nullptr && step_context->line != nullptr)
    return source_excerpt(*step_context->line);
  backward::StackTrace stack;
  stack.load_here(64);
  the_resolver().load_stacktrace(stack);
  for (std::size_t i = 0; i < stack.size(); ++i) {
    const SourceLine line = line_of(stack[i]);
    if (line.line != 0) return excerpt(line);
  }
  return "";
}

namespace {
/// The first line outside tessera's own headers; `known` says an address's, or asks what it is
/// given.
template <class Known>
SourceLine first_line(std::span<const void* const> addresses, Known&& known) {
  std::vector<void*> calls;
  for (const void* address : addresses) {
    if (address == nullptr) break;
    // A return address follows its call.
    calls.push_back(static_cast<std::byte*>(const_cast<void*>(address)) - 1);
  }
  bool loaded = false;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    SourceLine line = known(calls[i], [&] {
      if (!loaded) the_resolver().load_addresses(calls.data(), static_cast<int>(calls.size()));
      loaded = true;
      return line_of(backward::Trace(calls[i], i));
    });
    if (line.line != 0) return line;
  }
  return {};
}
}  // namespace

SourceLine trace_line(std::span<const void* const> addresses) {
  return first_line(addresses, cached_line);
}

// Of a program that is about to end by a signal: nothing is cached.
std::string trace_excerpt(std::span<const void* const> addresses) {
  return excerpt(first_line(addresses, [](const void*, const auto& find) { return find(); }));
}

}  // namespace tessera
