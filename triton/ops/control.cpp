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

/// What must be true; `what`: of what is not, "check failed: ...".
void plan_condition(Planner& p, const Operation& op, const std::string& what) {
  if (op.operands.size() != 1) p.refuse(op);
  const Type& t = p.type(op.operands[0]);
  if (t.dtype != DType::boolean) p.unsupported(op, "of no i1");
  const bool tensor = is_tensor(t);
  const int condition = tensor ? p.vector(op.operands[0]) : p.scalar(op.operands[0]);
  const Shape shape = t.shape;
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
    Diagnostic d{.slug = "check-failed", .headline = what + where};
    add_kernel_field(d);
    d.fields.emplace_back("line", caller_excerpt());
    add_replay_field(d);
    throw KernelError(std::move(d));
  });
}
void plan_tt_assert(Planner& p, const Operation& op) {
  plan_condition(p, op, "check failed: " + p.text(op, "message"));
}
void plan_assume(Planner& p, const Operation& op) {
  plan_condition(p, op, "what the kernel tells the compiler to assume is not so");
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

/// Of a function that is not to be inlined.
void plan_call(Planner& p, const Operation& op) {
  std::string name = p.text(op, "callee");
  std::erase_if(name, [](char c) { return c == '@' || c == '"'; });
  const Function* const f = p.module().function(name);
  if (f == nullptr) p.unsupported(op, "of " + name + ", which the module has not");
  p.call(op, *f);
}

/// A region of scalars for each element, or for `pack` of them at a time.
void plan_map(Planner& p, const Operation& op) {
  if (op.regions.size() != 1 || op.operands.empty() || op.results.empty()) p.refuse(op);
  const Region& body = op.regions[0];
  const auto pack = static_cast<std::size_t>(std::max<std::int64_t>(1, p.integer(op, "pack")));
  const std::int64_t n = p.type(op.results[0]).shape.elems();
  if (body.arguments.size() != op.operands.size() * pack ||
      n % static_cast<std::int64_t>(pack) != 0)
    p.refuse(op);
  struct Each {
    int vector;
    std::int64_t width;
    std::vector<int> scalars;
  };
  p.flush();
  std::vector<Each> in;
  std::vector<Each> out;
  for (const int v : op.operands) {
    if (!is_tensor(p.type(v)) || p.type(v).shape.elems() != n) p.refuse(op);
    in.push_back({p.vector(v), register_bytes(p.type(v).dtype), {}});
  }
  for (const int v : op.results) {
    if (!is_tensor(p.type(v)) || p.type(v).shape.elems() != n) p.refuse(op);
    out.push_back({p.new_vector(v), register_bytes(p.type(v).dtype), {}});
  }
  p.place(body.arguments);
  for (std::size_t i = 0; i < body.arguments.size(); ++i)
    in[i / pack].scalars.push_back(p.scalar(body.arguments[i]));
  const int at = p.fresh_scalar();
  p.emit([=](Exec& x) {
    x.set(at, std::int64_t{0});
    for (const Each& each : out)
      x.vector(each.vector) = {
          StorageHandle(Storage::allocate(static_cast<std::size_t>(n * each.width)))};
  });
  const auto first = std::make_shared<const std::size_t>(p.position());
  const auto end = std::make_shared<std::size_t>();
  for (const Each& each : in) p.read(each.vector);
  for (const Each& each : out) p.read(each.vector);
  p.emit([=](Exec& x) {
    const auto e = x.get<std::int64_t>(at);
    if (e >= n) {
      x.next = *end;
      return;
    }
    for (const Each& each : in) {
      const Vector& v = x.vector(each.vector);
      for (std::size_t k = 0; k < pack; ++k) {
        const std::int64_t element = e + static_cast<std::int64_t>(k);
        Scalar& s = x.scalars[static_cast<std::size_t>(each.scalars[k])];
        s = {};
        std::memcpy(s.bytes.data(), v.data.bytes() + element * each.width,
                    static_cast<std::size_t>(each.width));
        s.poison = v.poison_at(element);
      }
    }
  });
  p.jumps(end, "at its end");
  p.blocks(body, [&](const Operation& last) {
    if (last.operands.size() != op.results.size() * pack) p.refuse(op);
    std::vector<int> from;
    for (std::size_t i = 0; i < last.operands.size(); ++i) {
      p.expect_same_type(op, last.operands[i], op.results[i / pack]);
      from.push_back(p.scalar(last.operands[i]));
    }
    p.emit([=](Exec& x) {
      const auto e = x.get<std::int64_t>(at);
      for (std::size_t i = 0; i < from.size(); ++i) {
        const Scalar& s = x.scalars[static_cast<std::size_t>(from[i])];
        const std::int64_t element = e + static_cast<std::int64_t>(i % pack);
        const Each& each = out[i / pack];
        Vector& v = x.vector(each.vector);
        std::memcpy(v.data.bytes() + element * each.width, s.bytes.data(),
                    static_cast<std::size_t>(each.width));
        if (s.poison == 0) continue;
        if (!v.poison) v.poison = poison_mask(n, 0);
        v.poison.bytes()[element] = std::byte{s.poison};
      }
    });
  });
  for (const Each& each : in) p.read(each.vector);
  for (const Each& each : out) p.read(each.vector);
  p.emit([=](Exec& x) {
    x.set(at, x.get<std::int64_t>(at) + static_cast<std::int64_t>(pack));
    x.next = *first;
  });
  p.jumps(first);
  *end = p.position();
  p.hold_since(*first);
  p.label();
}

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
      {"llvm.intr.assume", "what the compiler may take for true: stops the kernel if it is not",
       false, plan_assume},
      {"tt.print", "prints its operands", false, plan_print},
      {"tt.debug_barrier", "nothing: lanes run op by op", true, plan_barrier},
      {"gpu.barrier", "nothing: lanes run op by op", true, plan_barrier},
      {"ttg.barrier", "nothing: lanes run op by op", true, plan_barrier},
      {"tt.grid_dependency_wait", "nothing: launches follow each other", true, plan_barrier},
      {"tt.grid_dependency_launch_dependents", "nothing: launches follow each other", true,
       plan_barrier},
      {"tt.turn", "the end of a loop's turn: it may be waiting", false, plan_turn},
      {"tt.call", "a function that is not inlined", false, plan_call},
      {"tt.map_elementwise", "a function of scalars, for each element", false, plan_map},
      {"ub.poison", "a value that is none", true, plan_poison},
  };
  return rules;
}

}  // namespace tessera::triton
