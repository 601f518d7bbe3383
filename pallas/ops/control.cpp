// Scopes, the grid, and what a body says rather than computes.
#include <cstdlib>

#include "pallas/literal.hpp"
#include "pallas/rules.hpp"
#include "program/memory.hpp"
#include "program/rules.hpp"

namespace tessera::pallas {

namespace {

/// What it allocates lives as long as it runs.
void plan_region(Planner& p, const Operation& op) {
  if (op.regions.size() != 1) p.refuse(op);
  p.flush();
  p.place(op.results);
  p.emit([](Exec& x) { x.scopes.emplace_back(); });
  const Operation* last = p.region(op.regions[0]);
  if (last != nullptr) p.move(last->operands, op.results);
  p.emit([](Exec& x) { leave_scope(x); });
}

void plan_iteration_bound(Planner& p, const Operation& op) {
  if (p.program().subcores.size() > 1) p.unsupported(op, "for several kinds of cores");
  p.expect(op, 0, 1);
  const auto dim = static_cast<std::size_t>(p.integer(op, "dim"));
  if (dim >= p.program().grid.size()) p.unsupported(op, "of no dim of the grid");
  const int to = p.new_scalar(op.results[0]);
  p.emit([=](Exec& x) { x.set(to, static_cast<std::int32_t>((*x.bounds)[dim])); });
}

void plan_program_id(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const auto dim = static_cast<std::size_t>(p.integer(op, "dim"));
  if (dim >= p.program().ids.size()) p.unsupported(op, "of no dim of the grid");
  const int from = p.program().ids[dim];
  const int to = p.new_scalar(op.results[0]);
  p.emit([=](Exec& x) {
    x.scalars[static_cast<std::size_t>(to)] = x.scalars[static_cast<std::size_t>(from)];
  });
}

/// A text that a value can follow.
std::string ends_apart(const std::string& text) {
  return text.empty() || text.ends_with('\n') || text.ends_with(' ') ? text : text + " ";
}

/// pl.debug_print. "$0", or "$x0" with a format, in a text with placeholders: a number. Without
/// any, values follow as XLA prints literals.
void plan_log(Planner& p, const Operation& op) {
  struct Part {
    int slot;
    Type type;
  };
  std::vector<Part> parts;
  for (const int v : op.operands) {
    const Type& t = p.type(v);
    if (t.kind == Type::Kind::memref || !t.known) p.unsupported(op, "of this type");
    parts.push_back({t.kind == Type::Kind::vector ? p.vector(v) : p.scalar(v), t});
  }
  for (const Part& part : parts) {
    if (part.type.kind == Type::Kind::vector) p.read(part.slot);
  }
  const auto tag = std::make_shared<std::string>(p.text(op, "tag"));
  const bool formatted = p.integer_or(op, "formatted", 0) != 0;
  p.emit([=](Exec& x) {
    if (x.printed == nullptr) return;
    std::string line;
    const auto value = [&](const Part& part) {
      if (part.type.kind == Type::Kind::vector)
        return literal(x.vector(part.slot), part.type.shape, part.type.dtype);
      const Scalar& s = x.scalars[static_cast<std::size_t>(part.slot)];
      if (!formatted) return literal(s, part.type.dtype);
      return s.poison ? std::string("?") : literal_element(s.bytes.data(), part.type.dtype);
    };
    for (std::size_t i = 0; i < tag->size(); ++i) {
      const std::size_t digits =
          formatted ? tag->find_first_of("0123456789", i) : std::string::npos;
      if ((*tag)[i] != '$' || digits == std::string::npos) {
        line += (*tag)[i];
        continue;
      }
      const std::size_t end = std::min(tag->find_first_not_of("0123456789", digits), tag->size());
      const auto number = static_cast<std::size_t>(
          std::strtoul(tag->substr(digits, end - digits).c_str(), nullptr, 10));
      if (number < parts.size()) line += value(parts[number]);
      i = end - 1;
    }
    for (std::size_t next = formatted ? parts.size() : 0; next < parts.size(); ++next)
      line = ends_apart(line) + value(parts[next]);
    *x.printed += line + "\n";
  });
}

/// pl.debug_print of a vector, which Pallas stores first.
void plan_log_buffer(Planner& p, const Operation& op) {
  p.expect(op, 1, 0);
  const Type& t = p.type(op.operands[0]);
  if (t.kind != Type::Kind::memref || !t.known || !t.semaphore.empty())
    p.unsupported(op, "of this type");
  const int from = p.memref(op.operands[0]);
  const DType dtype = t.dtype;
  const auto tag = std::make_shared<std::string>(p.text(op, "tag"));
  p.emit([=](Exec& x) {
    if (x.printed == nullptr) return;
    const Ref r = x.memref(from).ref();
    *x.printed += ends_apart(*tag) + literal(load(x, r), r.extents(), dtype) + "\n";
  });
}

void plan_nothing(Planner&, const Operation&) {}

}  // namespace

Rules scope_rules() {
  static const std::vector<Rule> rules = {
      {"tpu.region", "a scope of allocations", false, plan_region},
      {"tpu.assert", "stops the kernel with a message", false, plan_assert, Dry::skipped},
      {"tpu.iteration_bound", "an extent of the grid", true, plan_iteration_bound},
      {"tpu.program_id", "an index of the grid", true, plan_program_id},
      {"tpu.log", "prints a line", false, plan_log, Dry::skipped},
      {"tpu.log_buffer", "prints a buffer", false, plan_log_buffer, Dry::skipped},
      {"tpu.trace_start", "a named range of the timeline begins", false, plan_nothing},
      {"tpu.trace_stop", "a named range of the timeline ends", false, plan_nothing},
      {"tpu.trace_value", "a value of the timeline", false, plan_nothing},
      {"tpu.delay", "waits for some nanoseconds: no time passes here", false, plan_nothing},
  };
  return rules;
}

}  // namespace tessera::pallas
