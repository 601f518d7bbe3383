#include "program/debugger.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

#include "program/group.hpp"
#include "program/print.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::program {

namespace {

constexpr std::int64_t kShown = 8;  // rows and columns

bool watching = false;

/// A line that a body is in, or has just left.
struct RunningLine {
  int location = -1;
  std::set<int> known;  ///< vectors that it has told of
  std::string read;
  std::string made;
};

/// What the debugger asked for, and what it is told.
struct StopOfDebugger {
  int line = -1;
  bool asked = true;  // the first stop is the step that --at names
  std::string place;
  std::string vectors;
} stop;

std::map<const Exec*, RunningLine> running;

/// "v3 f32[8, 128]" and its first elements; of more than two dims those of the first matrix.
std::string table(const Exec& exec, const StepNote::Slot& s) {
  const Vector& v = exec.vectors[static_cast<std::size_t>(s.slot)];
  std::string text = fmt::format("v{} {}\n", s.slot, describe(s.dtype, s.shape));
  if (!v.data) return text + "  no longer there\n";
  const int rank = s.shape.rank;
  const std::int64_t cols = rank > 0 ? s.shape[rank - 1] : 1;
  const std::int64_t rows = rank > 1 ? s.shape[rank - 2] : 1;
  const std::int64_t bytes = register_bytes(s.dtype);
  for (std::int64_t r = 0; r < std::min(rows, kShown); ++r) {
    text += " ";
    for (std::int64_t c = 0; c < std::min(cols, kShown); ++c) {
      const std::int64_t e = r * cols + c;
      text += fmt::format(" {:>10}", v.is_poison(e)
                                         ? "undefined"
                                         : element_text(v.data.bytes() + e * bytes, s.dtype));
    }
    text += cols > kShown ? " ...\n" : "\n";
  }
  return rows > kShown ? text + "  ...\n" : text;
}

std::string scalar(const Exec& exec, const StepNote::Slot& s) {
  const Scalar& v = exec.scalars[static_cast<std::size_t>(s.slot)];
  return fmt::format("s{} {} {}\n", s.slot, tessera::name(s.dtype),
                     v.poison != 0 ? "undefined" : element_text(v.bytes.data(), s.dtype));
}

bool is_vector(const StepNote::Slot& s) { return s.kind == Type::Kind::vector && !s.regular; }
bool is_scalar(const StepNote::Slot& s) {
  return s.kind != Type::Kind::vector && s.kind != Type::Kind::memref;
}

/// The vectors that a step reads and that its line has not told of yet.
void tell_reads(const Exec& exec, RunningLine& line, const StepNote& note) {
  std::vector<StepNote::Slot> slots = note.reads;
  for (const Lane& l : note.group ? note.group->lanes : std::vector<Lane>{}) {
    if (l.kind == Lane::Kind::dense)
      slots.push_back({Type::Kind::vector, l.slot, l.dtype, note.group->members.front().shape});
  }
  for (const StepNote::Slot& s : slots) {
    if (is_vector(s) && line.known.insert(s.slot).second) line.read += table(exec, s);
  }
}

void tell_makes(const Exec& exec, RunningLine& line, const Step& step, const StepNote& note) {
  const std::string op = *step.op == 0 ? "" : std::string(step.op) + ": ";
  for (const StepNote::Slot& s : note.makes) {
    if (is_vector(s)) line.known.insert(s.slot);
    if (is_vector(s)) line.made += op + table(exec, s);
    if (is_scalar(s)) line.made += op + scalar(exec, s);
  }
  for (const Group::Member& m : note.group ? note.group->members : std::vector<Group::Member>{}) {
    if (m.vector < 0) continue;
    line.known.insert(m.vector);
    line.made += std::string(m.op.name) + ": " +
                 table(exec, {Type::Kind::vector, m.vector, m.op.result, m.shape});
  }
}

const Location& location_of(const Exec& exec, int location) {
  return exec.program.locations[static_cast<std::size_t>(location)];
}

bool same_line(const Exec& exec, int a, int b) {
  const Location& x = location_of(exec, a);
  const Location& y = location_of(exec, b);
  return x.line == y.line && x.file == y.file;
}

void arrive(const Exec& exec, const char* when, int location, std::string vectors) {
  std::string ids;
  for (int d = 0; d < exec.context.plan->grid_rank; ++d)
    ids += fmt::format("{}{}", ids.empty() ? "" : ", ", exec.context.ids[d]);
  const Location& at = location_of(exec, location);
  stop.place =
      fmt::format("grid ({}), {} {}", ids, when, source_excerpt({at.file.c_str(), at.line}));
  stop.vectors = std::move(vectors);
  stop.asked = false;
  tessera_module_stop();
}

void end_line(Exec& exec, RunningLine& line) {
  const RunningLine ended = std::exchange(line, {});
  if (ended.location < 0 || !stop.asked || stop.line < 0) return;
  const Location& at = location_of(exec, ended.location);
  if (at.line == 0 || (stop.line > 0 && at.line != stop.line)) return;
  arrive(exec, "after", ended.location,
         (ended.read.empty() ? "" : "read\n" + ended.read) +
             (ended.made.empty() ? "" : "made\n" + ended.made));
}

}  // namespace

void watch_lines() { watching = true; }
bool lines_watched() { return watching; }

void before_step(Exec& exec, std::size_t i) {
  RunningLine& line = running[&exec];
  const Code& code = exec.program.main;
  const int location = code.steps[i].location;
  if (i == 0 && stop.asked && stop.line < 0) arrive(exec, "before", location, "");
  if (line.location >= 0 && !same_line(exec, line.location, location)) end_line(exec, line);
  line.location = location;
  tell_reads(exec, line, code.notes[i]);
}

void after_step(Exec& exec, std::size_t i) {
  RunningLine& line = running[&exec];
  const Code& code = exec.program.main;
  tell_makes(exec, line, code.steps[i], code.notes[i]);
}

void after_body(Exec& exec) { end_line(exec, running[&exec]); }

}  // namespace tessera::program

extern "C" {
__attribute__((noinline, used)) void tessera_module_stop() { asm volatile(""); }
__attribute__((used)) int tessera_module_watched() { return tessera::program::watching ? 1 : 0; }
__attribute__((used)) void tessera_module_go(int line) {
  tessera::program::stop.line = line;
  tessera::program::stop.asked = true;
}
__attribute__((used)) const char* tessera_module_place() {
  return tessera::program::stop.place.c_str();
}
__attribute__((used)) const char* tessera_module_vectors() {
  return tessera::program::stop.vectors.c_str();
}
}
