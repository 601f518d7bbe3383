#include "program/planner.hpp"

#include <cmath>
#include <optional>

#include "memory_model/float_format.hpp"
#include "program/debugger.hpp"
#include "program/units.hpp"
#include "program/uses.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "sim/numerics/op_state.hpp"
#include "sim/run.hpp"

namespace tessera::program {

RuleTable::RuleTable(std::initializer_list<Rules> families, const char* help) : help_(help) {
  for (const Rules family : families) {
    for (const Rule& rule : family) rules_[rule.name] = &rule;
  }
}

const Rule* RuleTable::find(const std::string& op) const {
  const auto it = rules_.find(op);
  return it == rules_.end() ? nullptr : it->second;
}

Planner::Planner(const Module& module, const RuleTable& rules, Program& program)
    : module_(module),
      rules_(rules),
      program_(program),
      places_(module.values.size()),
      uses_(module.values.size()),
      roots_(module.values.size(), -1) {
  const UnitOps::Planned planned{module_, program_, uses_, roots_, unit_rows_};
  units_.emplace_back(planned, false);
  if (selects_narrow(module)) units_.emplace_back(planned, true);
}

Here Planner::here(const Operation& op) const {
  const Location& l = module_.locations[static_cast<std::size_t>(op.location)];
  return {l.file.c_str(), l.line};
}

Diagnostic about_op(const Module& module, const Operation& op, const std::string& kernel,
                    const std::string& why) {
  std::string signature;
  for (const int v : op.operands)
    signature += (signature.empty() ? "" : ", ") + module.type(v).text;
  for (std::size_t i = 0; i < op.results.size(); ++i)
    signature += (i == 0 ? " -> " : ", ") + module.type(op.results[i]).text;
  if (signature.size() > 300) signature = signature.substr(0, 300) + " ...";
  const Location& at = module.locations[static_cast<std::size_t>(op.location)];
  Diagnostic d{.slug = "unsupported",
               .kind = Diagnostic::Kind::unsupported,
               .headline = op.name + (why.empty() ? " is not built yet" : ": " + why)};
  d.fields.emplace_back("kernel", kernel);
  d.fields.emplace_back("line", source_excerpt({at.file.c_str(), at.line}));
  d.fields.emplace_back("types", signature);
  return d;
}

void Planner::unsupported(const Operation& op, const std::string& why) {
  Diagnostic d = about_op(module_, op, program_.name, why);
  d.fields.emplace_back("help", rules_.help());
  throw KernelError(std::move(d));
}

void Planner::unmodelled(const Operation& op, const std::string& why) {
  Diagnostic d = about_op(module_, op, program_.name, why);
  d.slug = "unmodelled";
  d.kind = Diagnostic::Kind::unmodelled;
  throw KernelError(std::move(d));
}

namespace {
[[noreturn]] void malformed(const Operation& op, const std::string& why) {
  throw InputError("bad-module", "the module makes no sense: " + op.name + " " + why);
}
}  // namespace

void Planner::refuse(const Operation& op) {
  malformed(op, "has " + std::to_string(op.operands.size()) + " operands, " +
                    std::to_string(op.results.size()) + " results and " +
                    std::to_string(op.regions.size()) + " regions");
}

void Planner::expect(const Operation& op, std::size_t operands, std::size_t results,
                     std::size_t regions) {
  if (op.operands.size() != operands || op.results.size() != results ||
      op.regions.size() != regions)
    refuse(op);
}

void Planner::expect_type(const Operation& op, DType d, std::size_t first) {
  for (std::size_t i = first; i < op.operands.size(); ++i) {
    const Type& t = type(op.operands[i]);
    if (!t.known) unsupported(op, "its type is not built yet");
    if (t.dtype != d) malformed(op, "mixes element types");
  }
}

void Planner::expect_same_type(const Operation& op, int a, int b) {
  if (!type(a).known || !type(b).known) unsupported(op, "its type is not built yet");
  if (type(a).dtype != type(b).dtype) malformed(op, "mixes element types");
}

std::int64_t Planner::integer_or(const Operation& op, const char* attribute,
                                 std::int64_t otherwise) {
  const Attribute* a = op.find(attribute);
  return a != nullptr && a->kind == Attribute::Kind::integer ? a->integer : otherwise;
}
std::int64_t Planner::integer(const Operation& op, const char* attribute) {
  const Attribute* a = op.find(attribute);
  if (a == nullptr || a->kind != Attribute::Kind::integer)
    malformed(op, std::string("lacks the attribute ") + attribute);
  return a->integer;
}
std::vector<std::int64_t> Planner::integers(const Operation& op, const char* attribute) {
  const Attribute* a = op.find(attribute);
  if (a != nullptr && a->kind == Attribute::Kind::integers) return a->integers;
  if (a == nullptr || a->kind != Attribute::Kind::list)
    malformed(op, std::string("lacks the attribute ") + attribute);
  std::vector<std::int64_t> numbers;
  for (const Attribute& each : a->list) numbers.push_back(each.integer);
  return numbers;
}
std::string Planner::text(const Operation& op, const char* attribute) {
  const Attribute* a = op.find(attribute);
  if (a == nullptr || a->kind != Attribute::Kind::text)
    malformed(op, std::string("lacks the attribute ") + attribute);
  return a->text;
}
std::string Planner::inner_text(const Operation& op, const char* attribute) {
  const std::string whole = text(op, attribute);
  const auto from = whole.find('<');
  const auto to = whole.rfind('>');
  return from == std::string::npos || to <= from ? whole : whole.substr(from + 1, to - from - 1);
}
std::vector<std::vector<int>> Planner::segments(const Operation& op) {
  std::vector<std::vector<int>> result;
  std::size_t at = 0;
  for (const std::int64_t size : integers(op, "operandSegmentSizes")) {
    if (size < 0 || at + static_cast<std::size_t>(size) > op.operands.size())
      malformed(op, "has segments that are not its operands");
    const auto first = op.operands.begin() + static_cast<std::ptrdiff_t>(at);
    result.emplace_back(first, first + size);
    at += static_cast<std::size_t>(size);
  }
  if (at != op.operands.size()) malformed(op, "has segments that are not its operands");
  return result;
}

Planner::Place& Planner::place_of(int value) { return places_[static_cast<std::size_t>(value)]; }

StepNote::Slot Planner::noted(int value, int slot) const {
  const Type& t = type(value);
  return {t.kind, slot, t.dtype, t.shape};
}
int Planner::made(int value) {
  const int slot = place_of(value).slot;
  note_.makes.push_back(noted(value, slot));
  return slot;
}
void Planner::jumps(std::shared_ptr<const std::size_t> target, const char* when) {
  code_->notes.back().target = std::move(target);
  code_->notes.back().when = when;
}

void Planner::note_choice(const Operation& op, Choice choice) {
  if (never_ > 0 || op.regions.size() != 2 || !may_be_predicated(op)) return;
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    const std::vector<int> of{op.regions[0].operations.back().operands[i],
                              op.regions[1].operations.back().operands[i]};
    choice.selects.push_back(units_[0].select(of, op.results[i], choice.end - 1, op.location));
    if (units_.size() > 1) units_[1].add_names(choice.selects.back().reads, of);
  }
  for (const char* const of : {"memref.load", "tpu.enqueue_dma"}) {
    const auto row = unit_rows_.find(of);
    if (row == unit_rows_.end()) continue;
    std::int64_t times = 0;
    const auto first = std::ranges::upper_bound(code_->units, choice.begin, {}, &UnitOp::step);
    for (auto unit = first; unit != code_->units.end(); ++unit) {
      const auto has_it = [&](const Choice& c) {
        return unit->step > c.begin && unit->step < c.end;
      };
      if (std::ranges::any_of(code_->choices, has_it)) continue;  // that inner one's
      for (const auto& [number, n] : unit->rows) times += number == row->second ? n : 0;
    }
    if (times > 0)
      choice.selects.push_back(units_[0].predicated(of, times, choice.end - 1, op.location));
  }
  code_->choices.push_back(std::move(choice));
}

void Planner::know(int value, std::int64_t constant) {
  for (UnitOps& units : units_) units.know(value, constant);
}

std::optional<bool> Planner::known_way(int condition) const {
  const auto known = units_[0].constant(condition, known_values());
  return known ? std::optional(*known != 0) : std::nullopt;
}

const Operation* Planner::way(const Region& r, bool taken) {
  never_ += taken ? 0 : 1;
  goes_on_ = taken;
  const Operation* const last = region(r);
  goes_on_ = false;
  never_ -= taken ? 0 : 1;
  return last;
}

void Planner::decided(const Operation& op, const Operation* taken, const Choice& ways, bool way) {
  const bool has_else = op.regions[1].blocks > 0;
  code_->notes[ways.begin].decided = true;
  if (has_else) code_->notes[ways.other - 1].decided = true;  // over the other way
  for (std::size_t i = way ? ways.other : ways.begin; i < (way ? ways.end : ways.other); ++i)
    code_->notes[i].decided = true;
  if (taken == nullptr || never_ > 0) return;
  for (std::size_t i = 0; i < op.results.size(); ++i)
    for (UnitOps& units : units_) units.is_same(op.results[i], taken->operands[i]);
}

bool Planner::may_be_predicated(const Operation& op) const {
  return std::ranges::all_of(op.regions, [&](const Region& r) {
    return r.others.empty() && std::ranges::all_of(r.operations, [&](const Operation& inner) {
             for (const char* const acts :
                  {"scf.yield", "tpu.enqueue_dma", "tpu.wait_dma2", "memref.store"})
               if (inner.name == acts) return true;
             if (inner.name == "scf.if") return may_be_predicated(inner);
             const Rule* const rule = rules_.find(inner.name);
             return rule != nullptr && rule->pure && inner.regions.empty();
           });
  });
}

int Planner::scalar(int value) {
  const Place& p = place_of(value);
  if (p.kind != Place::Kind::scalar) malformed(*running_, "takes a scalar here");
  note_.reads.push_back(noted(value, p.slot));
  return p.slot;
}
std::vector<int> Planner::scalars(std::span<const int> values) {
  std::vector<int> slots;
  for (const int v : values) slots.push_back(scalar(v));
  return slots;
}
int Planner::memref(int value) {
  const Place& p = place_of(value);
  if (p.kind != Place::Kind::memref) malformed(*running_, "takes a memref here");
  note_.reads.push_back(noted(value, p.slot));
  return p.slot;
}
int Planner::fresh_vector() {
  last_read_.push_back(0);
  made_.push_back(position());
  return program_.vectors++;
}
int Planner::new_scalar(int value) {
  const Type& t = type(value);
  if (t.kind != Type::Kind::scalar && t.kind != Type::Kind::index)
    malformed(*running_, "gives a scalar here");
  place_of(value) = {Place::Kind::scalar, fresh_scalar(), {}, 0};
  return made(value);
}
int Planner::new_vector(int value) {
  const Type& t = type(value);
  if (t.kind != Type::Kind::vector) malformed(*running_, "gives a vector here");
  place_of(value) = {Place::Kind::vector, fresh_vector(), {}, 0};
  return made(value);
}
int Planner::new_memref(int value) {
  if (type(value).kind != Type::Kind::memref) malformed(*running_, "gives a memref here");
  place_of(value) = {Place::Kind::memref, program_.memrefs++, {}, 0};
  return made(value);
}

void Planner::read(int slot) {
  std::size_t& last = last_read_[static_cast<std::size_t>(slot)];
  if (last != kAlways) last = position();
  pending_reads_.push_back(slot);
}

std::size_t Planner::emit(std::function<void(Exec&)> run, std::initializer_list<int> reads) {
  for (const int slot : reads) read(slot);
  code_->steps.push_back({.run = std::move(run),
                          .reads = std::exchange(pending_reads_, {}),
                          .op = running_name_,
                          .location = running_ == nullptr ? 0 : running_->location});
  code_->notes.push_back(std::exchange(note_, {}));
  return code_->steps.size() - 1;
}
std::size_t Planner::label() {
  block_ = ++blocks_;
  note_ = {};
  note_.what = "label";
  return emit([](Exec&) {});
}

void Planner::hold_since(std::size_t first) {
  for (std::size_t slot = 0; slot < last_read_.size(); ++slot) {
    if (last_read_[slot] != kAlways && last_read_[slot] >= first && made_[slot] < first)
      last_read_[slot] = position();
  }
}

int Planner::vector(int value) {
  Place& p = place_of(value);
  const Type& t = type(value);
  if (t.kind != Type::Kind::vector) malformed(*running_, "takes a vector here");
  if (p.kind == Place::Kind::waiting) emit_group(t.shape.elems());
  if (p.kind == Place::Kind::splat || p.kind == Place::Kind::broadcast) {
    const Lane lane = lane_of(value);
    const std::int64_t elems = t.shape.elems();
    const int slot = fresh_vector();
    if (lane.kind != Lane::Kind::splat) read(lane.slot);
    StepNote outer = std::exchange(note_, {});
    note_.reads = {{lane.kind == Lane::Kind::splat ? Type::Kind::scalar : Type::Kind::vector,
                    lane.slot,
                    t.dtype,
                    {}}};
    note_.makes = {noted(value, slot)};
    note_.what = "repeat";
    emit([=](Exec& x) { x.vector(slot) = expanded(x, lane, elems); });
    note_ = std::move(outer);
    note_.reads.push_back(noted(value, slot));
    carries_bounds();
    code_->steps.back().on_values = true;
    return slot;  // made anew for each use: what it repeats may change in between
  }
  if (p.kind == Place::Kind::regular) {
    if (p.block != block_) {
      p.slot = fresh_vector();
      p.block = block_;
      StepNote outer = std::exchange(note_, {});
      note_.reads = {{t.kind, p.view->slot, t.dtype, p.view->own, true}};
      note_.makes = {noted(value, p.slot)};
      note_.what = "elements";
      emit([slot = p.slot, view = p.view](Exec& x) { x.vector(slot) = elements_of(x, *view); });
      note_ = std::move(outer);
    }
    note_.reads.push_back(noted(value, p.slot));
    return p.slot;
  }
  if (p.kind != Place::Kind::vector) malformed(*running_, "takes a vector here");
  note_.reads.push_back(noted(value, p.slot));
  return p.slot;
}

bool Planner::is_regular(int value) {
  const Place& p = place_of(value);
  return p.kind == Place::Kind::regular ||
         (p.kind == Place::Kind::splat && !is_float(type(value).dtype) &&
          bit_width(type(value).dtype) >= 8 && type(value).shape.rank > 0 &&
          type(value).shape.rank <= kRegularRank);
}

RegularView Planner::regular(int value) {
  const Place& p = place_of(value);
  const Type& t = type(value);
  if (p.kind == Place::Kind::regular) {
    note_.reads.push_back({t.kind, p.view->slot, t.dtype, p.view->own, true});
    return *p.view;
  }
  if (p.kind != Place::Kind::splat) malformed(*running_, "takes a vector here");
  note_.reads.push_back({Type::Kind::scalar, p.lane.slot, t.dtype, {}});
  return {.slot = p.lane.slot, .splat = true, .dtype = t.dtype, .own = t.shape, .shape = t.shape};
}

void Planner::place_regular(int value, int slot) {
  const Type& t = type(value);
  Place p;
  p.kind = Place::Kind::regular;
  p.view = std::make_shared<const RegularView>(
      RegularView{.slot = slot, .dtype = t.dtype, .own = t.shape, .shape = t.shape});
  place_of(value) = std::move(p);
}

void Planner::range(int result, std::int64_t start) {
  const Type& t = type(result);
  const std::int64_t n = t.shape.elems();
  if (kept_regular(result) && t.shape.rank == 1) {
    Regular r;
    r.base = start;
    r.step[0] = n > 1 ? 1 : 0;
    program_.ranges.emplace_back(program_.regulars, std::move(r));
    place_regular(result, program_.regulars++);
    return;
  }
  Attribute value;
  value.kind = Attribute::Kind::dense;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto e = static_cast<std::int32_t>(start + i);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&e);
    value.bytes.insert(value.bytes.end(), bytes, bytes + sizeof(e));
  }
  constant(result, value);
}

bool Planner::regular_dims(int result, int operand, std::span<const int> from) {
  const Place& p = place_of(operand);
  const Shape& shape = type(result).shape;
  if (p.kind != Place::Kind::regular || !kept_regular(result) || shape.rank > kRegularRank)
    return false;
  RegularView view = *p.view;
  view.shape = shape;
  view.same = false;
  for (std::size_t d = 0; d < from.size(); ++d)
    view.from[d] = from[d] < 0 ? -1 : p.view->from[static_cast<std::size_t>(from[d])];
  Place to;
  to.kind = Place::Kind::regular;
  to.view = std::make_shared<const RegularView>(view);
  place_of(result) = std::move(to);
  return true;
}

bool Planner::last_use(int value) const {
  const auto argument = arguments_.find(value);
  return argument != arguments_.end() && argument->second == block_ &&
         uses_[static_cast<std::size_t>(value)] == 1;
}

int Planner::splatted(int value) {
  const Place& p = place_of(value);
  if (p.kind != Place::Kind::splat) return -1;
  note_.reads.push_back({Type::Kind::scalar, p.lane.slot, type(value).dtype, {}});
  return p.lane.slot;
}

namespace {

bool is_sum(const ElementOp& e) {
  return e.regular == regular_add || e.regular == regular_sub || e.regular == regular_mul;
}

/// Elements of a sum or product that do not fit its type are marked.
void mark_wrapped(Exec& x, const ElementOp& e, Vector& to, const Vector& a, const Vector& b,
                  std::int64_t n) {
  visit_dtype(e.result, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T> && sizeof(T) < 8) {
      const auto* const l = reinterpret_cast<const T*>(a.data.bytes());
      const auto* const r = reinterpret_cast<const T*>(b.data.bytes());
      const auto* const sums = reinterpret_cast<const T*>(to.data.bytes());
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t p = l[i];
        const std::int64_t q = r[i];
        const std::int64_t exact = e.regular == regular_add   ? p + q
                                   : e.regular == regular_sub ? p - q
                                                              : p * q;
        if (exact == static_cast<std::int64_t>(sums[i]) || to.is_poison(i)) continue;
        if (!to.poison) to.poison = poison_mask(n, 0);
        to.poison.bytes()[i] = std::byte{kWrapped};
        x.wraps[x.next - 1] = x.here();
      }
    }
  });
}

}  // namespace

/// Where the result is not regular, its elements are computed by a group of their own.
void Planner::regular_op(int result, const ElementOp& e, std::span<const int> operands) {
  const Type& t = type(result);
  struct Plan {
    std::vector<RegularView> in;
    Group group;  // its lanes are the vectors of the operands
    int made = -1;
  };
  const auto plan = std::make_shared<Plan>();
  note_ = {};
  Group::Member m;
  m.op = e;
  m.vector = plan->made = fresh_vector();
  m.location = running_->location;
  m.shape = t.shape;
  for (const int v : operands) {
    plan->in.push_back(regular(v));
    m.operands.push_back(plan->group.lane({Lane::Kind::dense, fresh_vector(), 1, type(v).dtype}));
  }
  plan->group.elems = t.shape.elems();
  plan->group.members.push_back(std::move(m));
  const int slot = program_.regulars++;
  place_regular(result, slot);
  note_.makes.push_back({t.kind, slot, t.dtype, t.shape, true});
  emit([plan, slot, e, shape = t.shape, watched = watched(result) && is_sum(e)](Exec& x) {
    std::array<std::optional<Regular>, 2> own;
    std::array<const Regular*, 2> in{};
    bool regular = true;
    for (std::size_t i = 0; i < plan->in.size(); ++i) {
      const RegularView& v = plan->in[i];
      in[i] = v.same && !v.splat ? &x.regulars[static_cast<std::size_t>(v.slot)]
                                 : &regular_value(x, v, own[i].emplace());
      regular = regular && !in[i]->dense.data;
    }
    Regular& to = x.regulars[static_cast<std::size_t>(slot)];
    if (regular && e.regular(to, in.data(), shape) &&
        (e.result == DType::boolean || fits(to, shape, e.result))) {
      if (to.dense.data) to.dense = Vector();
      return;
    }
    for (std::size_t i = 0; i < plan->in.size(); ++i)
      x.vector(plan->group.lanes[i].slot) = elements_of(x, plan->in[i]);
    plan->group.run(x);
    to.dense = std::exchange(x.vector(plan->made), Vector());
    if (watched) {
      mark_wrapped(x, e, to.dense, x.vector(plan->group.lanes.front().slot),
                   x.vector(plan->group.lanes.back().slot), shape.elems());
    }
    for (const Lane& l : plan->group.lanes) x.vector(l.slot) = Vector();
  });
  carries_bounds();
  work(plan->group.work());
  of_scalars_ = position();
}

Lane Planner::lane_of(int value) {
  Place& p = place_of(value);
  const Type& t = type(value);
  if (p.kind == Place::Kind::splat || p.kind == Place::Kind::broadcast) {
    Lane l = p.lane;
    l.dtype = t.dtype;
    return l;
  }
  if (p.kind == Place::Kind::waiting) return {Lane::Kind::result, p.member, 1, t.dtype};
  return {Lane::Kind::dense, vector(value), 1, t.dtype};
}

void Planner::alias(int result, int operand) {
  const Type& to = type(result);
  const Type& from = type(operand);
  if (to.kind == Type::Kind::vector && from.kind == Type::Kind::vector) {
    if (to.shape.elems() != from.shape.elems() ||
        register_bytes(to.dtype) != register_bytes(from.dtype))
      malformed(*running_, "changes the number of bytes");
    Place& p = place_of(operand);
    if (p.kind == Place::Kind::splat) {
      place_of(result) = p;
      place_of(result).lane.dtype = to.dtype;
      return;
    }
    if (p.kind == Place::Kind::waiting && to.dtype == from.dtype) {
      place_of(result) = p;
      waiting_values_[from.shape.elems()].push_back(result);
      return;
    }
    if (p.kind == Place::Kind::broadcast && to.dtype == from.dtype) {
      place_of(result) = p;
      return;
    }
    place_of(result) = {Place::Kind::vector, vector(operand), {}, 0};
    return;
  }
  place_of(result) = place_of(operand);
}

void Planner::reinterpret(int result, int operand) {
  if (type(result).dtype != type(operand).dtype) {
    const Place& p = place_of(operand);
    if (p.kind == Place::Kind::scalar || p.kind == Place::Kind::splat) {
      const int slot = p.kind == Place::Kind::scalar ? p.slot : p.lane.slot;
      emit([slot](Exec& x) {
        if (x.scalars[static_cast<std::size_t>(slot)].bound > 0)
          fail_bounds_of("through a bitcast");
      });
    } else {
      const int slot = p.kind == Place::Kind::broadcast ? p.lane.slot : vector(operand);
      emit([](Exec&) {}, {slot});
    }
  }
  alias(result, operand);
}

void Planner::splat(int result, int scalar_slot) {
  if (type(result).kind != Type::Kind::vector) malformed(*running_, "gives a vector here");
  place_of(result) = {
      Place::Kind::splat, -1, {Lane::Kind::splat, scalar_slot, 1, type(result).dtype}, 0};
}

namespace {

/// How a vector repeats to become a larger one, its dims aligned to the right.
struct Repeats {
  std::int64_t outer = 1;  ///< copies of all of it, one after the other
  std::int64_t inner = 1;  ///< copies of each element, side by side
  bool inside = false;     ///< it repeats between dims that it has, too
  bool fits = true;        ///< extents are equal, or 1 in what repeats
  Shape strides;  ///< per dim of the result, in elements of the operand; 0 where it repeats
};

Repeats repeats_of(const Shape& from, const Shape& to) {
  Repeats r;
  const int pad = to.rank - from.rank;
  const auto extent = [&](int d) { return d < pad ? 1 : from[d - pad]; };
  int first = to.rank;  // dims [first, last) that the operand has whole
  int last = 0;
  for (int d = 0; d < to.rank; ++d) {
    r.fits = r.fits && (extent(d) == 1 || extent(d) == to[d]);
    if (extent(d) == 1) continue;
    first = std::min(first, d);
    last = d + 1;
  }
  for (int d = 0; d < to.rank; ++d) {
    if (extent(d) != 1) continue;
    if (d < first)
      r.outer *= to[d];
    else if (d >= last)
      r.inner *= to[d];
    else
      r.inside = r.inside || to[d] != 1;
  }
  r.strides = to;
  std::int64_t step = 1;
  for (int d = to.rank - 1; d >= 0; --d) {
    r.strides[d] = extent(d) == 1 ? 0 : step;
    step *= extent(d);
  }
  return r;
}

/// Elements of this many bytes, each to all the places where it repeats.
StorageHandle repeated(const StorageHandle& from, std::int64_t bytes, const Shape& shape,
                       const Shape& strides) {
  StorageHandle h(Storage::allocate(static_cast<std::size_t>(shape.elems() * bytes)));
  std::byte* out = h.bytes();
  Shape at = shape;
  for (int d = 0; d < at.rank; ++d) at[d] = 0;
  std::int64_t place = 0;
  for (std::int64_t i = 0; i < shape.elems(); ++i) {
    std::memcpy(out, from.bytes() + place * bytes, static_cast<std::size_t>(bytes));
    out += bytes;
    for (int d = shape.rank - 1; d >= 0; --d) {
      place += strides[d];
      if (++at[d] < shape[d]) break;
      place -= strides[d] * shape[d];
      at[d] = 0;
    }
  }
  return h;
}

}  // namespace

void Planner::broadcast(int result, int operand) {
  const Type& from = type(operand);
  const Type& to = type(result);
  if (to.kind != Type::Kind::vector || from.kind != Type::Kind::vector)
    malformed(*running_, "takes and gives a vector");
  expect_same_type(*running_, operand, result);
  const Place& p = place_of(operand);
  if (p.kind == Place::Kind::splat) {
    place_of(result) = p;
    return;
  }
  if (to.shape.rank < from.shape.rank) malformed(*running_, "gives fewer dims");
  if (p.kind == Place::Kind::regular && to.shape.rank == from.shape.rank) {
    constexpr std::array<int, kRegularRank> kSame{0, 1, 2, 3};
    for (int d = 0; d < to.shape.rank; ++d) {
      if (from.shape[d] != 1 && from.shape[d] != to.shape[d]) malformed(*running_, "does not fit");
    }
    if (regular_dims(result, operand,
                     std::span(kSame).first(static_cast<std::size_t>(to.shape.rank))))
      return;
  }
  const Repeats repeats = repeats_of(from.shape, to.shape);
  if (!repeats.fits) malformed(*running_, "does not fit");
  const auto lanes = [&](Lane::Kind kind, std::int64_t n) {
    place_of(result) = {Place::Kind::broadcast, -1, {kind, vector(operand), n, to.dtype}, 0};
  };
  if (from.shape.elems() == 1)
    lanes(Lane::Kind::columns, 1);
  else if (repeats.inside || (repeats.outer != 1 && repeats.inner != 1))
    repeat(result, operand, repeats.strides);
  else if (repeats.outer != 1)
    lanes(Lane::Kind::columns, from.shape.elems());
  else if (repeats.inner != 1)
    lanes(Lane::Kind::rows, repeats.inner);
  else
    alias(result, operand);
}

/// Element by element, by strides of the operand.
void Planner::repeat(int result, int operand, const Shape& strides) {
  const int source = vector(operand);
  const int slot = new_vector(result);
  const Shape shape = type(result).shape;
  const std::int64_t width = register_bytes(type(result).dtype);
  emit(
      [=](Exec& x) {
        const Vector& v = x.vector(source);
        Vector r{repeated(v.data, width, shape, strides)};
        if (v.poison) r.poison = repeated(v.poison, 1, shape, strides);
        if (v.bound) r.bound = repeated(v.bound, sizeof(float), shape, strides);
        x.vector(slot) = std::move(r);
      },
      {source});
  carries_bounds();
}

namespace {
/// How far a constant may be from the real number that it stands for: half a unit in the last
/// place, unless so few bits are set that it is that number.
float what_rounding_took(const std::byte* bytes, DType dtype) {
  if (!is_float(dtype)) return 0;
  const double v = visit_dtype(dtype, [&]<class Tag>(Tag) {
    typename Tag::type held;
    std::memcpy(&held, bytes, sizeof(held));
    return convert<double>(held);
  });
  if (v == 0 || !std::isfinite(v)) return 0;
  int exponent = 0;
  const int bits = mantissa_bits(dtype);
  const double short_ones = std::ldexp(std::frexp(v, &exponent), bits / 2 + 1);
  return short_ones == std::trunc(short_ones)
             ? 0.f
             : static_cast<float>(std::ldexp(1., exponent - 2 - bits));
}
}  // namespace

void Planner::constant(int result, const Attribute& value) {
  const Type& t = type(result);
  const auto slot_of = [&](std::uint64_t bits, DType dtype) {
    const auto [it, fresh] = constants_.try_emplace({dtype, bits}, program_.scalars);
    if (fresh) {
      Scalar s;
      std::memcpy(s.bytes.data(), &bits, sizeof(bits));
      s.bound = what_rounding_took(s.bytes.data(), dtype);
      program_.constants.emplace_back(program_.scalars++, s);
    }
    return it->second;
  };
  const auto bits_of = [&](const std::vector<std::byte>& bytes) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes.data(), std::min<std::size_t>(8, bytes.size()));
    return bits;
  };
  if (t.kind == Type::Kind::vector) {
    const auto width = static_cast<std::size_t>(register_bytes(t.dtype));
    if (value.kind != Attribute::Kind::dense || !t.known || value.bytes.size() % width != 0 ||
        value.bytes.empty())
      malformed(*running_, "has no value");
    if (value.bytes.size() == width) {
      splat(result, slot_of(bits_of(value.bytes), t.dtype));
      return;
    }
    if (static_cast<std::int64_t>(value.bytes.size() / width) != t.shape.elems())
      malformed(*running_, "has no value");
    program_.dense.emplace_back(new_vector(result), value.bytes);
    // It is set before the first step, and stays.
    last_read_[static_cast<std::size_t>(place_of(result).slot)] = kAlways;
    return;
  }
  if (t.kind != Type::Kind::scalar && t.kind != Type::Kind::index)
    malformed(*running_, "has no value");
  std::uint64_t bits = 0;
  if (value.kind == Attribute::Kind::integer && !is_float(t.dtype)) {
    bits = static_cast<std::uint64_t>(value.integer);
    if (t.dtype == DType::boolean) bits = value.integer != 0 ? 1 : 0;
  } else if (value.kind == Attribute::Kind::real && !value.bytes.empty()) {
    bits = bits_of(value.bytes);
  } else {
    malformed(*running_, "has no value");
  }
  place_of(result) = {Place::Kind::scalar, slot_of(bits, t.dtype), {}, 0};
}

void Planner::element_op(const Operation& op, ElementOp e, std::span<const int> operands) {
  e.name = running_name_;
  const int result = op.results.at(0);
  const Type& t = type(result);
  if (operands.size() > 4) malformed(op, "has too many operands");
  const bool scalars = t.kind != Type::Kind::vector;
  bool splats = !scalars;
  for (const int v : operands) {
    const Type& of = type(v);
    if (!of.known) unsupported(op, "its type is not built yet");
    if (scalars != (of.kind != Type::Kind::vector)) {
      // A scalar condition among vectors.
      if (scalars || of.kind != Type::Kind::scalar) malformed(op, "mixes scalars and vectors");
      continue;
    }
    if (!scalars && of.shape.elems() != t.shape.elems()) malformed(op, "mixes shapes");
    splats = splats && place_of(v).kind == Place::Kind::splat;
  }
  const bool regular = e.regular != nullptr && kept_regular(result) && operands.size() <= 2 &&
                       std::ranges::all_of(operands, [&](int v) {
                         return is_regular(v) && type(v).shape == t.shape;
                       });
  if (!t.known) unsupported(op, "its type is not built yet");
  if (t.dtype != e.result) malformed(op, "gives another type");
  if (element_ops_ != nullptr)
    element_ops_->insert_or_assign(result, MadeBy{e, {operands.begin(), operands.end()}});
  if (scalars || splats)
    scalar_op(result, e, operands);
  else if (regular)
    regular_op(result, e, operands);
  else if (watched(result) && is_sum(e))
    watched_op(result, e, operands);
  else
    grouped_op(result, e, operands);
}

/// A sum or product of vectors that must fit its type.
void Planner::watched_op(int result, const ElementOp& e, std::span<const int> operands) {
  struct Plan {
    Group group;
    std::array<int, 2> in{};
  };
  const auto plan = std::make_shared<Plan>();
  Group::Member m;
  m.op = e;
  m.location = running_->location;
  m.shape = type(result).shape;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    plan->in[i] = vector(operands[i]);
    m.operands.push_back(plan->group.lane({Lane::Kind::dense, plan->in[i], 1, e.result}));
  }
  const int to = m.vector = new_vector(result);
  plan->group.elems = m.shape.elems();
  plan->group.members.push_back(std::move(m));
  emit(
      [plan, to, e](Exec& x) {
        plan->group.run(x);
        mark_wrapped(x, e, x.vector(to), x.vector(plan->in[0]), x.vector(plan->in[1]),
                     plan->group.elems);
      },
      {plan->in[0], plan->in[1]});
  carries_bounds();
  work(plan->group.work());
}

/// Of scalars, or of vectors of one value each.
void Planner::scalar_op(int result, const ElementOp& e, std::span<const int> operands) {
  const Type& t = type(result);
  std::array<int, 4> in{};
  std::array<DType, 4> types{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Place& p = place_of(operands[i]);
    in[i] = p.kind == Place::Kind::splat ? p.lane.slot : scalar(operands[i]);
    types[i] = type(operands[i]).dtype;
  }
  const int out = fresh_scalar();
  note_ = {};
  for (std::size_t i = 0; i < operands.size(); ++i)
    note_.reads.push_back({Type::Kind::scalar, in[i], types[i], {}});
  note_.makes.push_back({Type::Kind::scalar, out, t.dtype, {}});
  if (t.kind != Type::Kind::vector)
    place_of(result) = {Place::Kind::scalar, out, {}, 0};
  else
    splat(result, out);
  const std::size_t n = operands.size();
  const bool checked = watched(result) && is_sum(e);
  emit([=](Exec& x) {
    std::array<const std::byte*, 4> from{};
    bool poison = false;
    for (std::size_t i = 0; i < n; ++i) {
      const Scalar& s = x.scalars[static_cast<std::size_t>(in[i])];
      from[i] = s.bytes.data();
      poison = poison || s.poison != 0;
    }
    Scalar& to = x.scalars[static_cast<std::size_t>(out)];
    e.kernel(to.bytes.data(), from.data(), 1);
    to.poison = 0;
    if (poison) {
      to.poison = poisoned(
          e.poison, n,
          [&](std::size_t i) { return x.scalars[static_cast<std::size_t>(in[i])].poison; },
          [&](std::size_t i) {
            return std::all_of(from[i], from[i] + register_bytes(types[i]),
                               [](std::byte b) { return b == std::byte{0}; });
          });
    }
    if (checked && !poison) {
      std::array<Regular, 2> own;
      std::array<const Regular*, 2> exact{};
      for (std::size_t i = 0; i < n; ++i)
        exact[i] = &regular_value(x, {.slot = in[i], .splat = true, .dtype = types[i]}, own[i]);
      Regular sum;
      if (!e.regular(sum, exact.data(), {}) || !fits(sum, {}, e.result)) {
        to.poison = kWrapped;
        x.wraps[x.next - 1] = x.here();
      }
    }
    to.bound = 0;
    if (op_state.error_model != nullptr) {
      std::array<const float*, 4> bounds{};
      for (std::size_t i = 0; i < n; ++i) {
        const Scalar& s = x.scalars[static_cast<std::size_t>(in[i])];
        bounds[i] = s.bound > 0 ? &s.bound : nullptr;
      }
      if (const StorageHandle b =
              e.bounds(to.bytes.data(), {from.data(), n}, {types.data(), n}, {bounds.data(), n}, 1))
        to.bound = *floats(b);
    }
  });
  of_scalars_ = position();
}

/// Of vectors: it waits for others of as many elements.
void Planner::grouped_op(int result, const ElementOp& e, std::span<const int> operands) {
  const std::int64_t elems = type(result).shape.elems();
  // What waits in another group, or is computed on the way, must come first.
  for (const int v : operands) {
    const Place& p = place_of(v);
    if (p.kind == Place::Kind::waiting && type(v).shape.elems() != elems)
      emit_group(type(v).shape.elems());
  }
  constexpr std::size_t kMost = 64;
  if (waiting_[elems].members.size() >= kMost) emit_group(elems);
  std::vector<Lane> lanes;
  for (const int v : operands) {
    lanes.push_back(type(v).kind == Type::Kind::vector
                        ? lane_of(v)
                        : Lane{Lane::Kind::splat, scalar(v), 1, type(v).dtype});
  }
  Group& group = waiting_[elems];
  group.elems = elems;
  Group::Member m;
  m.op = e;
  const auto number = static_cast<int>(group.members.size());
  m.last_use = number;
  m.location = running_->location;
  m.shape = type(result).shape;
  for (const Lane& l : lanes) {
    m.operands.push_back(group.lane(l));
    if (l.kind == Lane::Kind::result)
      group.members[static_cast<std::size_t>(l.slot)].last_use = number;
  }
  group.members.push_back(std::move(m));
  place_of(result) = {Place::Kind::waiting, -1, {}, number};
  waiting_values_[elems].push_back(result);
  if (lines_watched()) emit_group(elems);
}

/// The results that somebody reads outside become vectors.
void Planner::emit_group(std::int64_t elems) {
  const auto it = waiting_.find(elems);
  if (it == waiting_.end() || it->second.members.empty()) return;
  Group group = std::move(it->second);
  waiting_.erase(it);
  std::vector<int> values = std::move(waiting_values_[elems]);
  waiting_values_.erase(elems);
  for (const int v : values) {
    Place& p = place_of(v);
    Group::Member& m = group.members[static_cast<std::size_t>(p.member)];
    if (m.vector < 0) m.vector = fresh_vector();
    p = {Place::Kind::vector, m.vector, {}, 0};
  }
  // A value whose every use is in the group stays inside.
  std::map<int, int> inner;  // uses of each member inside
  for (const auto& m : group.members) {
    for (const int lane : m.operands) {
      const Lane& l = group.lanes[static_cast<std::size_t>(lane)];
      if (l.kind == Lane::Kind::result) ++inner[l.slot];
    }
  }
  std::map<int, int> all;
  for (const int v : values) {
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      if (group.members[i].vector == place_of(v).slot)
        all[static_cast<int>(i)] += uses_[static_cast<std::size_t>(v)];
    }
  }
  // A cast that shares its operand's place counts as a use of the operand: none outside then.
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    const int aliases = static_cast<int>(std::count_if(
                            values.begin(), values.end(),
                            [&](int v) { return place_of(v).slot == group.members[i].vector; })) -
                        1;
    if (inner[static_cast<int>(i)] > 0 &&
        all[static_cast<int>(i)] - std::max(0, aliases) <= inner[static_cast<int>(i)])
      group.members[i].vector = -1;
  }
  for (const Lane& l : group.lanes) {
    if (l.kind != Lane::Kind::splat && l.kind != Lane::Kind::result) read(l.slot);
  }
  for (const auto& m : group.members) {
    if (m.vector >= 0) made_[static_cast<std::size_t>(m.vector)] = position();
  }
  const auto shared = std::make_shared<const Group>(std::move(group));
  StepNote outer = std::exchange(note_, {});
  note_.group = shared;
  emit([shared](Exec& x) { shared->run(x); });
  note_ = std::move(outer);
  carries_bounds();
  work(shared->work());
  code_->steps.back().on_values = true;
}

void Planner::flush() {
  while (!waiting_.empty()) {
    const std::int64_t elems = waiting_.begin()->first;
    if (waiting_.begin()->second.members.empty())
      waiting_.erase(waiting_.begin());
    else
      emit_group(elems);
  }
}

void Planner::place(std::span<const int> values) {
  for (const int v : values) {
    const Type& t = type(v);
    if (kept_regular(v))
      place_regular(v, program_.regulars++);
    else if (t.kind == Type::Kind::vector)
      new_vector(v);
    else if (t.kind == Type::Kind::memref)
      new_memref(v);
    else
      new_scalar(v);
  }
  note_.makes.clear();
}

void Planner::move(std::span<const int> from, std::span<const int> to) {
  if (from.size() != to.size()) malformed(*running_, "passes another number of values");
  struct Move {
    Type::Kind kind;
    int from;
    int to;
    std::shared_ptr<const RegularView> regular = nullptr;  // of `to`: what it gets, or `from`
  };
  StepNote outer = std::exchange(note_, {});
  std::vector<Move> moves;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Type& t = type(to[i]);
    if (t.text != type(from[i]).text && t.kind != Type::Kind::memref)
      malformed(*running_, "passes a value of another type");
    if (place_of(to[i]).kind == Place::Kind::regular) {
      const int slot = place_of(to[i]).view->slot;
      if (is_regular(from[i]))
        moves.push_back({t.kind, -1, slot, std::make_shared<const RegularView>(regular(from[i]))});
      else
        moves.push_back({t.kind, vector(from[i]), slot, std::make_shared<const RegularView>()});
    } else if (t.kind == Type::Kind::vector)
      moves.push_back({t.kind, vector(from[i]), vector(to[i])});
    else if (t.kind == Type::Kind::memref)
      moves.push_back({t.kind, memref(from[i]), memref(to[i])});
    else
      moves.push_back({t.kind, scalar(from[i]), scalar(to[i])});
  }
  note_ = {};
  note_.what = "move";
  if (moves.empty()) {
    note_ = std::move(outer);
    return;
  }
  for (std::size_t i = 0; i < moves.size(); ++i) {
    note_.reads.push_back(noted(from[i], moves[i].from));
    note_.makes.push_back(noted(to[i], moves[i].to));
    if (!moves[i].regular) continue;
    note_.makes.back().regular = true;
    if (moves[i].from >= 0) continue;
    note_.reads.back().slot = moves[i].regular->slot;
    note_.reads.back().regular = !moves[i].regular->splat;
  }
  for (const Move& m : moves) {
    if (m.kind != Type::Kind::vector) continue;
    if (m.from >= 0) read(m.from);
    if (!m.regular) read(m.to);  // it has a value from here on, in this turn or the next
  }
  const auto regular_of = [](const Exec& x, const Move& m) {
    Regular r;
    if (m.from >= 0) {
      r.dense = x.vectors[static_cast<std::size_t>(m.from)];
      return r;
    }
    const Regular& value = regular_value(x, *m.regular, r);
    if (&value == &r) return r;
    return value;
  };
  if (moves.size() == 1) {
    const Move m = moves[0];
    emit([m, regular_of](Exec& x) {
      if (m.regular)
        x.regulars[static_cast<std::size_t>(m.to)] = regular_of(x, m);
      else if (m.kind == Type::Kind::vector)
        x.vector(m.to) = x.vector(m.from);
      else if (m.kind == Type::Kind::memref)
        x.memref(m.to) = x.memref(m.from);
      else
        x.scalars[static_cast<std::size_t>(m.to)] = x.scalars[static_cast<std::size_t>(m.from)];
    });
    carries_bounds();
    note_ = std::move(outer);
    return;
  }
  emit([moves, regular_of](Exec& x) {
    const std::size_t n = moves.size();
    if (x.moving.size() < n) {
      x.moving.resize(n);
      x.moving_vectors.resize(n);
      x.moving_memrefs.resize(n);
      x.moving_regulars.resize(n);
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (moves[i].regular)
        x.moving_regulars[i] = regular_of(x, moves[i]);
      else if (moves[i].kind == Type::Kind::vector)
        x.moving_vectors[i] = x.vector(moves[i].from);
      else if (moves[i].kind == Type::Kind::memref)
        x.moving_memrefs[i] = x.memref(moves[i].from);
      else
        x.moving[i] = x.scalars[static_cast<std::size_t>(moves[i].from)];
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (moves[i].regular)
        x.regulars[static_cast<std::size_t>(moves[i].to)] = std::move(x.moving_regulars[i]);
      else if (moves[i].kind == Type::Kind::vector)
        x.vector(moves[i].to) = std::exchange(x.moving_vectors[i], Vector());
      else if (moves[i].kind == Type::Kind::memref)
        x.memref(moves[i].to) = x.moving_memrefs[i];
      else
        x.scalars[static_cast<std::size_t>(moves[i].to)] = x.moving[i];
    }
  });
  carries_bounds();
  note_ = std::move(outer);
}

void Planner::operation(const Operation& op) {
  const Operation* const outer = std::exchange(running_, &op);
  const Rule* const rule = rules_.find(op.name);
  if (rule == nullptr) unsupported(op, "");
  ++program_.operations;
  const char* const outer_name = std::exchange(running_name_, rule->name);
  const std::size_t outer_block = block_;
  const bool values = on_values(op, *rule);
  if (values && std::ranges::any_of(op.operands, [&](int v) { return type(v).space == "smem"; })) {
    // A vector in SMEM is what scalars, and so decisions, may come from.
    emit([](Exec& x) {
      if (x.dry) x.fail_value();
    });
  }
  const std::size_t before = position();
  of_scalars_ = 0;
  note_ = {};
  rule->plan(*this, op);
  if (op.regions.empty()) note_memory(op, before);
  if (program_.of_core && op.regions.empty() && never_ == 0) note_units(op, before);
  if (values && position() > before && of_scalars_ != position()) {
    for (std::size_t i = before; i < position(); ++i) code_->steps[i].on_values = true;
    for (const int v : op.results) {
      if (place_of(v).kind == Place::Kind::scalar)
        code_->steps.back().unknown.push_back(place_of(v).slot);
    }
  }
  running_ = outer;
  running_name_ = outer_name;
  block_ = outer_block;
}

KnownValues Planner::known_values() const {
  KnownValues known;
  known.repeats = [this](int v) {
    return places_[static_cast<std::size_t>(v)].kind == Place::Kind::splat;
  };
  known.constant = [this](int v) -> std::optional<std::int64_t> {
    const Place& p = places_[static_cast<std::size_t>(v)];
    const bool splat = p.kind == Place::Kind::splat;
    if (!splat && p.kind != Place::Kind::scalar) return std::nullopt;
    const int slot = splat ? p.lane.slot : p.slot;
    const auto it = std::ranges::lower_bound(program_.constants, slot, {},
                                             [](const auto& constant) { return constant.first; });
    if (it == program_.constants.end() || it->first != slot) return std::nullopt;
    std::int64_t value = 0;
    std::memcpy(&value, it->second.bytes.data(),
                static_cast<std::size_t>(register_bytes(type(v).dtype)));
    return value;
  };
  return known;
}

/// `step`: where the op's first step would be; its stretch of code has one there.
void Planner::note_units(const Operation& op, std::size_t step) {
  const KnownValues known = known_values();
  for (UnitOps& units : units_) units.note(op, step, known);
}

Origin Planner::read_number(const Operation& op, int argument) {
  const Read read{op.location, argument};
  const auto known = std::ranges::find(program_.reads, read);
  const auto at = static_cast<std::size_t>(known - program_.reads.begin());
  if (at + 1 >= kAnyRead) return kAnyRead;
  if (known == program_.reads.end()) program_.reads.push_back(read);
  return static_cast<Origin>(at + 1);
}
void Planner::reads_memory(const Operation& op, int argument) {
  code_->steps.back().argument = argument;
  code_->steps.back().read = read_number(op, argument);
}

/// Whose memory an op's steps, those from `first` on, read or write; a view's is that of what it
/// views.
void Planner::note_memory(const Operation& op, std::size_t first) {
  const auto is_memref = [&](int v) { return type(v).kind == Type::Kind::memref; };
  const auto memref = std::ranges::find_if(op.operands, is_memref);
  if (memref == op.operands.end()) return;
  const int argument = root(*memref);
  if (op.results.size() == 1 && is_memref(op.results[0])) {
    roots_[static_cast<std::size_t>(op.results[0])] = argument;
    return;
  }
  const Origin number = op.results.empty() ? kAnyRead : read_number(op, argument);
  for (std::size_t i = first; i < position(); ++i) {
    code_->steps[i].argument = argument;
    code_->steps[i].read = number;
  }
}

bool Planner::on_values(const Operation& op, const Rule& rule) const {
  if (!op.regions.empty() || rule.dry == Dry::runs) return false;
  if (rule.dry == Dry::skipped) return true;
  const auto is_vector = [&](int v) { return type(v).kind == Type::Kind::vector; };
  return std::ranges::any_of(op.operands, is_vector) || std::ranges::any_of(op.results, is_vector);
}

const Operation* Planner::region(const Region& r) {
  if (r.blocks != 1 || r.operations.empty()) {
    if (r.blocks == 0) return nullptr;
    malformed(*running_, "has a region of several blocks");
  }
  return block(r);
}

const Operation* Planner::block(const Region& r) {
  if (r.operations.empty()) malformed(*running_, "has an empty block");
  block_ = ++blocks_;
  for (const int v : r.arguments) arguments_[v] = block_;
  const bool apart = !std::exchange(goes_on_, false) && never_ == 0;
  std::vector<UnitOps::Mark> marks;
  for (UnitOps& units : units_)
    if (apart) marks.push_back(units.enter());
  for (std::size_t i = 0; i + 1 < r.operations.size(); ++i) {
    if (!dead_.contains(&r.operations[i])) operation(r.operations[i]);
  }
  flush();
  const bool ends = body_ == &r && calls_.empty() && r.others.empty() && code_ == &program_.main;
  for (std::size_t i = 0; i < marks.size(); ++i) units_[i].leave(marks[i], ends);
  return &r.operations.back();
}

void Planner::drop_dead(const Region& r) {
  for (auto other = r.others.rbegin(); other != r.others.rend(); ++other) drop_dead(*other);
  for (auto op = r.operations.rbegin(); op != r.operations.rend(); ++op) {
    const Rule* const rule = rules_.find(op->name);
    const bool pure = rule != nullptr && rule->pure;
    const bool read = std::any_of(op->results.begin(), op->results.end(),
                                  [&](int v) { return uses_[static_cast<std::size_t>(v)] > 0; });
    if (pure && !read) {
      dead_.insert(&*op);
      for (const int v : op->operands) --uses_[static_cast<std::size_t>(v)];
      continue;
    }
    for (const Region& each : op->regions) drop_dead(each);
  }
}

std::shared_ptr<const std::size_t> Planner::branch_target(const Operation& op, int to) {
  if (body_ == nullptr || to < 1 || to > std::ssize(body_->others))
    malformed(op, "has no such block");
  if (planned_.contains(to)) unsupported(op, "back to a block: loops are scf's");
  return block_starts_[static_cast<std::size_t>(to)];
}
std::span<const int> Planner::block_arguments(int to) const {
  return body_->others[static_cast<std::size_t>(to - 1)].arguments;
}

/// The blocks that can be reached, each after all that lead to it.
std::vector<int> Planner::block_order(const Region& body) const {
  std::vector<int> order;
  std::set<int> seen;
  const auto visit = [&](const auto& self, int number) -> void {
    if (number < 0 || number > std::ssize(body.others) || !seen.insert(number).second) return;
    const Region& r = number == 0 ? body : body.others[static_cast<std::size_t>(number - 1)];
    if (!r.operations.empty()) {
      const std::vector<int>& next = r.operations.back().successors;
      for (auto to = next.rbegin(); to != next.rend(); ++to) self(self, *to);
    }
    order.insert(order.begin(), number);
  };
  visit(visit, 0);
  return order;
}

/// Branches lead forward, so that what a step reads was made before it.
void Planner::blocks(const Region& r, const std::function<void(const Operation&)>& leave) {
  const Region* const outer = std::exchange(body_, &r);
  const std::set<int> outer_planned = std::exchange(planned_, {});
  auto outer_starts = std::exchange(block_starts_, {});
  for (std::size_t i = 0; i <= r.others.size(); ++i)
    block_starts_.push_back(std::make_shared<std::size_t>());
  for (const Region& other : r.others) place(other.arguments);
  const auto end = std::make_shared<std::size_t>();
  const std::vector<int> order = block_order(r);
  for (const int number : order) {
    const auto i = static_cast<std::size_t>(number);
    planned_.insert(number);
    *block_starts_[i] = position();
    const Operation* const last = block(i == 0 ? r : r.others[i - 1]);
    if (!last->name.ends_with(".return")) {
      if (last->successors.empty()) malformed(*last, "does not return");
      operation(*last);
      continue;
    }
    leave(*last);
    if (number == order.back()) continue;
    emit([end](Exec& x) { x.next = *end; });
    jumps(end);
  }
  *end = position();
  body_ = outer;
  planned_ = outer_planned;
  block_starts_ = std::move(outer_starts);
}

void Planner::body(const Function& f, Code& code) {
  blocks(f.body, [&](const Operation& last) {
    if (!f.body.others.empty() && !last.operands.empty())
      unsupported(last, "of values, from a function of several blocks");
    for (const int v : last.operands) code.results.push_back(scalar(v));
  });
}

void Planner::call(const Operation& op, const Function& f) {
  constexpr std::size_t kDeepest = 100;
  if (op.operands.size() != f.body.arguments.size()) refuse(op);
  if (calls_.size() > kDeepest || std::ranges::count(calls_, &f) > 0)
    unsupported(op, "of a function that calls itself");
  flush();
  if (called_.insert(&f).second) {
    count_uses(f.body, uses_);
    drop_dead(f.body);
  }
  calls_.push_back(&f);
  place(op.results);
  place(f.body.arguments);
  move(op.operands, f.body.arguments);
  blocks(f.body, [&](const Operation& last) { move(last.operands, op.results); });
  label();
  calls_.pop_back();
}

void Planner::plan_function(const Function& f, Code& code) {
  code_ = &code;
  units_[0].begin(code.units);
  if (units_.size() > 1) units_[1].begin(code.units_of_known_narrow_masks);
  const Operation none{.name = f.name,
                       .operands = {},
                       .results = {},
                       .attributes = nullptr,
                       .regions = {},
                       .location = 0,
                       .successors = {}};
  running_ = &none;
  count_uses(f.body, uses_);
  drop_dead(f.body);
  const std::size_t first_slot = last_read_.size();
  place(f.body.arguments);
  for (const int v : f.body.arguments) roots_[static_cast<std::size_t>(v)] = v;
  for (const int v : f.body.arguments)
    code.arguments.push_back(type(v).kind == Type::Kind::memref ? memref(v) : scalar(v));
  body(f, code);
  for (UnitOps& units : units_) units.end();
  for (std::size_t slot = first_slot; slot < last_read_.size(); ++slot) {
    const std::size_t at = std::max(last_read_[slot], made_[slot]);
    if (at < code.steps.size()) code.steps[at].releases.push_back(static_cast<int>(slot));
  }
  running_ = nullptr;
}

}  // namespace tessera::program
