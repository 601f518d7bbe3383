// Branches, loops, regions, and what a body says rather than computes.
#include <fmt/format.h>

#include <cstdlib>

#include "pallas/ops/memory.hpp"

namespace tessera::pallas {

namespace {

void jump_unless(Planner& p, int condition, const std::shared_ptr<std::size_t>& target) {
  p.emit([condition, to = target](Exec& x) {
    if (x.integer(condition, DType::boolean, "a branch") == 0) x.next = *to;
  });
}
void jump(Planner& p, const std::shared_ptr<std::size_t>& target) {
  p.emit([to = target](Exec& x) { x.next = *to; });
}

void plan_if(Planner& p, const Operation& op) {
  if (op.operands.size() != 1 || op.regions.size() != 2) p.refuse(op);
  p.flush();
  const int condition = p.scalar(op.operands[0]);
  p.place(op.results);
  const auto other = std::make_shared<std::size_t>();
  const auto end = std::make_shared<std::size_t>();
  const std::size_t first = p.position() + 1;
  jump_unless(p, condition, other);
  const auto branch = [&](const Region& r) {
    const Operation* last = p.region(r);
    if (last == nullptr) return;
    p.move(last->operands, op.results);
  };
  branch(op.regions[0]);
  const bool has_else = op.regions[1].blocks > 0;
  if (has_else) jump(p, end);
  *other = p.position();
  if (has_else) branch(op.regions[1]);
  *end = p.position();
  p.hold_since(first);
  p.label();
}

void plan_for(Planner& p, const Operation& op) {
  if (op.operands.size() < 3 || op.regions.size() != 1 ||
      op.regions[0].arguments.size() + 2 != op.operands.size() ||
      op.results.size() + 3 != op.operands.size())
    p.refuse(op);
  p.flush();
  const Region& body = op.regions[0];
  const DType dtype = p.type(op.operands[0]).dtype;
  const int lo = p.scalar(op.operands[0]);
  const int hi = p.scalar(op.operands[1]);
  const int step = p.scalar(op.operands[2]);
  p.place(op.results);
  p.place(body.arguments);
  const std::span<const int> start = std::span(op.operands).subspan(3);
  const std::span<const int> carried = std::span(body.arguments).subspan(1);
  p.move(start, carried);
  const int index = p.scalar(body.arguments[0]);
  // In 64 bits: the last step may pass the end of its type.
  const int counter = p.fresh_scalar();
  const int last_value = p.fresh_scalar();
  const int by = p.fresh_scalar();
  p.emit([=](Exec& x) {
    const std::int64_t begin = x.integer(lo, dtype, "a loop's bound");
    x.set(counter, begin);
    x.set(last_value, x.integer(hi, dtype, "a loop's bound"));
    x.set(by, x.integer(step, dtype, "a loop's step"));
    if (x.get<std::int64_t>(by) <= 0) fail_ref("a loop whose step is not positive");
  });
  const std::size_t first = p.position();
  const auto end = std::make_shared<std::size_t>();
  p.emit([=](Exec& x) {
    const auto i = x.get<std::int64_t>(counter);
    if (i >= x.get<std::int64_t>(last_value)) {
      x.next = *end;
      return;
    }
    if (dtype == DType::i64)
      x.set(index, i);
    else
      x.set(index, static_cast<std::int32_t>(i));
  });
  const Operation* last = p.region(body);
  if (last != nullptr) p.move(last->operands, carried);
  p.emit([=](Exec& x) {
    x.set(counter, x.get<std::int64_t>(counter) + x.get<std::int64_t>(by));
    x.next = first;
  });
  *end = p.position();
  p.hold_since(first);
  p.label();
  p.move(carried, op.results);
}

void plan_while(Planner& p, const Operation& op) {
  if (op.regions.size() != 2 || op.regions[0].arguments.size() != op.operands.size() ||
      op.regions[1].arguments.size() != op.results.size())
    p.refuse(op);
  p.flush();
  const Region& before = op.regions[0];
  const Region& after = op.regions[1];
  p.place(op.results);
  p.place(before.arguments);
  p.place(after.arguments);
  p.move(op.operands, before.arguments);
  const std::size_t first = p.position();
  p.label();
  const Operation* test = p.region(before);
  if (test == nullptr || test->name != "scf.condition" || test->operands.empty())
    p.unsupported(op, "without a condition");
  const std::span<const int> values = std::span(test->operands).subspan(1);
  p.move(values, after.arguments);
  const auto end = std::make_shared<std::size_t>();
  jump_unless(p, p.scalar(test->operands[0]), end);
  const Operation* last = p.region(after);
  if (last != nullptr) p.move(last->operands, before.arguments);
  p.emit([=](Exec& x) { x.next = first; });
  *end = p.position();
  p.hold_since(first);
  p.label();
  p.move(after.arguments, op.results);
}

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

void plan_assert(Planner& p, const Operation& op) {
  if (op.operands.size() != 1) p.refuse(op);
  const int condition = p.scalar(op.operands[0]);
  const auto message = std::make_shared<std::string>(p.text(op, "msg"));
  p.emit([=](Exec& x) {
    if (x.integer(condition, DType::boolean, "an assertion") != 0) return;
    Diagnostic d{.slug = "check-failed", .headline = "check failed: " + *message};
    add_kernel_field(d);
    d.fields.emplace_back("line", caller_excerpt());
    add_replay_field(d);
    throw KernelError(std::move(d));
  });
}

std::string element_text(const std::byte* at, DType dtype) {
  return visit_dtype(dtype, [&](auto tag) -> std::string {
    using T = typename decltype(tag)::type;
    T v{};
    std::memcpy(&v, at, sizeof(T));
    if constexpr (kIsFloat<T>)
      return fmt::format("{:g}", convert<float>(v));
    else if constexpr (std::is_same_v<T, bool>)
      return v ? "true" : "false";
    else
      return std::to_string(convert<std::int64_t>(v));
  });
}
std::string vector_text(const Vector& v, const Shape& s, DType dtype, int dim, std::int64_t& at) {
  if (dim == s.rank) {
    const std::int64_t e = at++;
    if (v.poison && v.poison.bytes()[e] != std::byte{0}) return "?";
    return element_text(v.data.bytes() + e * register_bytes(dtype), dtype);
  }
  std::string text = "[";
  for (std::int64_t i = 0; i < s[dim]; ++i)
    text += (i > 0 ? (dim + 1 < s.rank ? "\n " : " ") : "") + vector_text(v, s, dtype, dim + 1, at);
  return text + "]";
}

/// pl.debug_print.
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
      std::int64_t at = 0;
      if (part.type.kind == Type::Kind::vector)
        return vector_text(x.vector(part.slot), part.type.shape, part.type.dtype, 0, at);
      const Scalar& s = x.scalars[static_cast<std::size_t>(part.slot)];
      return s.poison ? std::string("?") : element_text(s.bytes.data(), part.type.dtype);
    };
    // "$0", or "$x0" with a format: the place of a value. Without any, values follow the text.
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
      line += (line.empty() ? "" : " ") + value(parts[next]);
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
    std::int64_t at = 0;
    *x.printed += *tag + (tag->empty() || tag->ends_with('\n') ? "" : " ") +
                  vector_text(load(x, r), r.extents(), dtype, 0, at) + "\n";
  });
}

void plan_nothing(Planner&, const Operation&) {}

}  // namespace

Rules control_rules() {
  static const std::vector<Rule> rules = {
      {"scf.if", "one of two regions", false, plan_if},
      {"scf.for", "a region for each index", false, plan_for},
      {"scf.while", "a region while another says so", false, plan_while},
      {"tpu.region", "a scope of allocations", false, plan_region},
      {"cf.assert", "stops the kernel with a message", false, plan_assert},
      {"tpu.assert", "stops the kernel with a message", false, plan_assert},
      {"tpu.iteration_bound", "an extent of the grid", true, plan_iteration_bound},
      {"tpu.program_id", "an index of the grid", true, plan_program_id},
      {"tpu.log", "prints a line", false, plan_log},
      {"tpu.log_buffer", "prints a buffer", false, plan_log_buffer},
      {"tpu.trace_start", "a named range of the timeline begins", false, plan_nothing},
      {"tpu.trace_stop", "a named range of the timeline ends", false, plan_nothing},
      {"tpu.trace_value", "a value of the timeline", false, plan_nothing},
      {"tpu.delay", "waits for some nanoseconds: no time passes here", false, plan_nothing},
  };
  return rules;
}

}  // namespace tessera::pallas
