// Lines of code that is here and of code that was inlined into it, by its return addresses.
#include "sim/diagnostics/debug_lines.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <string>

namespace tessera {
namespace {

std::vector<SourceLine> lines;

[[gnu::noinline]] void note_caller() {
  // A return address follows its call.
  lines = source_lines(static_cast<const std::byte*>(__builtin_return_address(0)) - 1);
}

constexpr int kInner = __LINE__ + 2;
[[gnu::always_inline]] inline void inner() {
  note_caller();
  lines.push_back({});  // the call is not the last thing that is done
}

constexpr int kOuter = __LINE__ + 2;
[[gnu::always_inline]] inline void outer() {
  inner();
  lines.pop_back();
}

[[gnu::noinline]] int call() {
  outer();
  return __LINE__ - 1;
}

void is_here(const SourceLine& at, int line) {
  INFO(at.file);
  CHECK(at.file.ends_with("debug_lines_test.cpp"));
  CHECK(at.line == line);
}

}  // namespace

TEST_CASE("an address has its line, and those of the calls that inlined it, inner first") {
  const int line = call();
  REQUIRE(lines.size() == 3);
  is_here(lines[0], kInner);
  is_here(lines[1], kOuter);
  is_here(lines[2], line);
}

TEST_CASE("a member of a local class has its line") {
  struct Local {
    [[gnu::noinline]] static int call() {
      note_caller();
      return __LINE__ - 1;
    }
  };
  const int line = Local::call();
  REQUIRE(lines.size() == 1);
  is_here(lines[0], line);
}

TEST_CASE("what has no debug information has no lines") {
  CHECK(source_lines(nullptr).empty());
  int on_the_stack = 0;
  CHECK(source_lines(&on_the_stack).empty());
}

}  // namespace tessera
