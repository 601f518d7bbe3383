// tt.* of the program that runs: its place in the grid, assertions, prints, barriers.
#include <fmt/format.h>

#include "program/rules.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "triton/memory.hpp"
#include "triton/plan_kernel.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

std::size_t axis_of(Planner& p, const Operation& op) {
  const std::int64_t axis = p.integer(op, "axis");
  if (axis < 0 || axis > 2) p.refuse(op);
  return static_cast<std::size_t>(axis);
}

void plan_program_id(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const int from = p.program().ids[axis_of(p, op)];
  const int to = p.new_scalar(op.results[0]);
  p.emit([=](Exec& x) { x.set(to, x.get<std::int32_t>(from)); });
}

void plan_num_programs(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const std::size_t axis = axis_of(p, op);
  const int to = p.new_scalar(op.results[0]);
  p.emit([=](Exec& x) { x.set(to, static_cast<std::int32_t>((*x.bounds)[axis])); });
}

void plan_tt_assert(Planner& p, const Operation& op) {
  if (op.operands.size() != 1) p.refuse(op);
  const Type& t = p.type(op.operands[0]);
  if (t.dtype != DType::boolean) p.unsupported(op, "of no i1");
  const bool tensor = is_tensor(t);
  const int condition = tensor ? p.vector(op.operands[0]) : p.scalar(op.operands[0]);
  const Shape shape = t.shape;
  const auto message = std::make_shared<std::string>(p.text(op, "message"));
  if (tensor) p.read(condition);
  p.emit([=](Exec& x) {
    std::string where;
    if (!tensor) {
      if (x.integer(condition, DType::boolean, "an assertion") != 0) return;
    } else {
      const Vector& v = x.vector(condition);
      std::int64_t e = 0;
      const std::int64_t n = shape.elems();
      if (const Origin o = v.first_poison(0, n)) fail_poison(o, "an assertion");
      while (e < n && v.data.bytes()[e] != std::byte{0}) ++e;
      if (e == n) return;
      const Shape at = unravel(shape, e);
      where = ", first at element " + to_string(at);
    }
    Diagnostic d{.slug = "check-failed", .headline = "check failed: " + *message + where};
    add_kernel_field(d);
    d.fields.emplace_back("line", caller_excerpt());
    add_replay_field(d);
    throw KernelError(std::move(d));
  });
}

std::string text_of(const std::byte* bytes, DType d) {
  return visit_dtype(d, [&](auto tag) -> std::string {
    using T = typename decltype(tag)::type;
    T v;
    std::memcpy(&v, bytes, sizeof(T));
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return fmt::format("{}", static_cast<std::int64_t>(v));
    else
      return fmt::format("{}", convert<double>(v));
  });
}

/// Scalars on a line; of a tensor its first elements.
void plan_print(Planner& p, const Operation& op) {
  note_print(p);
  struct Printed {
    bool tensor;
    int slot;
    Type type;
  };
  std::vector<Printed> values;
  for (const int v : op.operands) {
    const Type& t = p.type(v);
    const bool tensor = is_tensor(t);
    values.push_back({tensor, tensor ? p.vector(v) : p.scalar(v), t});
  }
  for (const Printed& v : values) {
    if (v.tensor) p.read(v.slot);
  }
  const auto prefix = std::make_shared<std::string>(p.text(op, "prefix"));
  p.emit([=](Exec& x) {
    constexpr std::int64_t kShown = 8;
    std::string line =
        fmt::format("pid ({}, {}, {})", x.context.ids[0], x.context.ids[1], x.context.ids[2]);
    line += *prefix;
    for (const Printed& v : values) {
      if (!v.tensor) {
        line +=
            text_of(x.scalars[static_cast<std::size_t>(v.slot)].bytes.data(), v.type.dtype) + " ";
        continue;
      }
      line += tessera::describe(v.type.dtype, v.type.shape) + ":";
      const std::int64_t n = v.type.shape.elems();
      for (std::int64_t e = 0; e < std::min(n, kShown); ++e)
        line += " " + text_of(x.vector(v.slot).data.bytes() + e * register_bytes(v.type.dtype),
                              v.type.dtype);
      line += n > kShown ? " ... " : " ";
    }
    while (line.ends_with(' ')) line.pop_back();
    if (x.printed != nullptr) *x.printed += line + "\n";
  });
}

/// Of a loop that only waits.
void plan_turn(Planner& p, const Operation& op) {
  note_wait(p);
  std::vector<std::pair<int, int>> carried;  // and what it was in the turn before
  for (const int v : op.operands) carried.emplace_back(p.scalar(v), p.fresh_scalar());
  const int effects = p.fresh_scalar();
  p.emit([=](Exec& x) {
    Instance& i = instance(x);
    bool same = i.effects == x.get<std::int64_t>(effects);
    x.set(effects, i.effects);
    for (const auto& [now, before] : carried) {
      const Scalar& n = x.scalars[static_cast<std::size_t>(now)];
      Scalar& b = x.scalars[static_cast<std::size_t>(before)];
      same = same && n.bytes == b.bytes;
      b = n;
    }
    if (same) i.memory.turned_in_vain(i);
  });
}

/// Lanes of a program run one op after the other: there is nothing to wait for.
void plan_barrier(Planner& p, const Operation&) { p.label(); }

/// A value that the compiler says is none.
void plan_poison(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const Type& t = p.type(op.results[0]);
  if (!is_tensor(t)) {
    const int to = p.new_scalar(op.results[0]);
    p.emit([=](Exec& x) { x.set(to, std::int64_t{0}, kAnyRead); });
    return;
  }
  const int to = p.new_vector(op.results[0]);
  const std::int64_t n = t.shape.elems();
  const std::int64_t bytes = n * register_bytes(t.dtype);
  p.emit([=](Exec& x) {
    Vector v{StorageHandle(Storage::allocate(static_cast<std::size_t>(bytes))),
             poison_mask(n, kAnyRead)};
    std::memset(v.data.bytes(), 0, static_cast<std::size_t>(bytes));
    x.vector(to) = std::move(v);
  });
}

}  // namespace

Rules control_rules() {
  static const std::vector<Rule> rules = {
      {"tt.get_program_id", "the program's place in the grid", true, plan_program_id},
      {"tt.get_num_programs", "the grid's extent", true, plan_num_programs},
      {"tt.assert", "stops the kernel with a message", false, plan_tt_assert},
      {"tt.print", "prints its operands", false, plan_print},
      {"tt.debug_barrier", "nothing: lanes run op by op", false, plan_barrier},
      {"gpu.barrier", "nothing: lanes run op by op", false, plan_barrier},
      {"ttg.barrier", "nothing: lanes run op by op", false, plan_barrier},
      {"tt.turn", "the end of a loop's turn: it may be waiting", false, plan_turn},
      {"ub.poison", "a value that is none", true, plan_poison},
  };
  return rules;
}

}  // namespace tessera::triton
