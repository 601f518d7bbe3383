// scf and cf: branches, loops, assertions.
#include "program/rules.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::program {

namespace {

void jump_unless(Planner& p, int condition, const std::shared_ptr<std::size_t>& target) {
  p.emit([condition, to = target](Exec& x) {
    if (x.integer(condition, DType::boolean, "a branch") == 0) x.next = *to;
  });
  p.jumps(target, "else");
}
void jump(Planner& p, const std::shared_ptr<const std::size_t>& target) {
  p.emit([to = target](Exec& x) {
    stop_if_asked();
    x.next = *to;
  });
  p.jumps(target);
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
  const std::optional<bool> known = p.known_way(op.operands[0]);
  const Operation* taken = nullptr;
  const auto branch = [&](const Region& r, bool way) {
    const Operation* last = known ? p.way(r, way == *known) : p.region(r);
    if (known && way == *known) taken = last;
    if (last == nullptr) return;
    p.move(last->operands, op.results);
  };
  branch(op.regions[0], true);
  const bool has_else = op.regions[1].blocks > 0;
  if (has_else) jump(p, end);
  *other = p.position();
  if (has_else) branch(op.regions[1], false);
  *end = p.position();
  p.hold_since(first);
  p.label();
  const Choice ways{.begin = first - 1, .other = *other, .end = *end, .selects = {}};
  if (known)
    p.decided(op, taken, ways, *known);
  else
    p.note_choice(op, ways);
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
  const auto first = std::make_shared<const std::size_t>(p.position());
  const auto end = std::make_shared<std::size_t>();
  const int index = p.made(body.arguments[0]);
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
  p.jumps(end, "at its end");
  const Operation* last = p.region(body);
  if (last != nullptr) {
    p.turn_ends(op, {lo, counter, last_value, by, index, dtype, *first});
    p.move(last->operands, carried);
  }
  p.emit([=](Exec& x) {
    stop_if_asked();
    x.set(counter, x.get<std::int64_t>(counter) + x.get<std::int64_t>(by));
    x.next = *first;
  });
  p.jumps(first);
  *end = p.position();
  p.hold_since(*first);
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
  const auto first = std::make_shared<const std::size_t>(p.position());
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
  jump(p, first);
  *end = p.position();
  p.hold_since(*first);
  p.label();
  p.move(after.arguments, op.results);
}

void plan_branch(Planner& p, const Operation& op) {
  if (op.successors.size() != 1) p.refuse(op);
  const auto target = p.branch_target(op, op.successors[0]);
  p.move(op.operands, p.block_arguments(op.successors[0]));
  jump(p, target);
}

void plan_conditional_branch(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (op.successors.size() != 2 || parts.size() != 3 || parts[0].size() != 1) p.refuse(op);
  const auto other = std::make_shared<std::size_t>();
  jump_unless(p, p.scalar(parts[0][0]), other);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto target = p.branch_target(op, op.successors[i]);
    if (i == 1) *other = p.position();
    p.move(parts[i + 1], p.block_arguments(op.successors[i]));
    jump(p, target);
  }
}

}  // namespace

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

Rules branch_rules() {
  static const std::vector<Rule> rules = {
      {"cf.br", "goes on at a block", false, plan_branch},
      {"cf.cond_br", "goes on at one of two blocks", false, plan_conditional_branch},
  };
  return rules;
}

Rules control_rules() {
  static const std::vector<Rule> rules = {
      {"scf.if", "one of two regions", false, plan_if},
      {"scf.for", "a region for each index", false, plan_for},
      {"scf.while", "a region while another says so", false, plan_while},
      {"cf.assert", "stops the kernel with a message", false, plan_assert, Dry::skipped},
  };
  return rules;
}

}  // namespace tessera::program
