// A diagnostic: one thing that is wrong, where, and what to do next.
//
// Four kinds: the kernel is wrong; `unmodelled`, nobody has measured what hardware does;
// `unsupported`, not built yet; `internal`, our bug. What a person typed wrong is no diagnostic but
// an InputError. sim/diagnostics/slugs.hpp has one function per slug.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "memory_model/here.hpp"

namespace tessera {

struct Diagnostic {
  enum class Kind { kernel, unmodelled, unsupported, internal };
  std::string slug = {};
  Kind kind = Kind::kernel;
  std::string headline = {};
  std::vector<std::pair<std::string, std::string>> fields =
      {};  ///< in print order: "kernel", "line", ...

  /// The message as it is printed, ending in a newline.
  std::string text() const;
};

const char* name(Diagnostic::Kind kind);

/// Ends the run of a kernel; tessera::run() turns it into a RunResult's diagnostic.
struct KernelError : std::runtime_error {
  explicit KernelError(Diagnostic d) : std::runtime_error(d.headline), diagnostic(std::move(d)) {}
  Diagnostic diagnostic;
};

/// Bad usage or bad input: exit code 2. `slug` as in "unknown-kernel".
struct InputError : std::runtime_error {
  InputError(std::string slug_, const std::string& what, std::string help_ = "")
      : std::runtime_error(what), slug(std::move(slug_)), help(std::move(help_)) {}
  std::string slug = {};
  std::string help;
  std::string text() const;
};

/// "; did you mean 'matmul'?" if one of `known` is near, else "".
std::string did_you_mean(const std::string& wrong, const std::vector<std::string>& known);
/// The same, else "; known: a, b, c".
std::string suggest(const std::string& wrong, const std::vector<std::string>& known);

/// The one of `all` that has this name; `what` they are. Throws InputError.
template <class T, std::size_t kCount>
T named(const T (&all)[kCount], const std::string& text, const char* what) {
  std::vector<std::string> known;
  for (const T& one : all) {
    if (text == name(one)) return one;
    known.emplace_back(name(one));
  }
  throw InputError("bad-input",
                   std::string("no ") + what + " '" + text + "'" + suggest(text, known));
}

/// "kernels/matmul.hpp:57  *acc += dot(*x, *y);", the source text if the file can be read.
std::string source_excerpt(Here at);

/// The same for the innermost caller outside tessera's own headers, from the debug information of
/// the running program; "" if it has none.
std::string caller_excerpt();

/// The same for return addresses that were kept, innermost first; null ends them.
std::string trace_excerpt(std::span<const void* const> addresses);
/// That line alone; 0 if there is none.
struct SourceLine {
  std::string file;
  int line = 0;
};
SourceLine trace_line(std::span<const void* const> addresses);

}  // namespace tessera
