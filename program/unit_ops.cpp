#include "program/unit_ops.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "program/unit_shapes.hpp"

namespace tessera::program {

bool selects_narrow(const Module& module) {
  const auto in = [&](const auto& self, const Region& region) -> bool {
    const auto of_narrow = [&](const Operation& op) {
      if (std::ranges::any_of(op.regions, [&](const Region& r) { return self(self, r); }))
        return true;
      if (op.name != "arith.select" || op.results.size() != 1) return false;
      const Type& t = module.type(op.results[0]);
      return t.kind == Type::Kind::vector && t.known && is_narrow(t.dtype);
    };
    return std::ranges::any_of(region.operations, of_narrow) ||
           std::ranges::any_of(region.others, [&](const Region& r) { return self(self, r); });
  };
  return std::ranges::any_of(module.functions, [&](const Function& f) { return in(in, f.body); });
}

UnitOps::UnitOps(const Planned& planned, bool knows_narrow_masks)
    : planned_(planned),
      values_(planned.module),
      masks_(planned.module, knows_narrow_masks),
      registers_(planned.module, masks_),
      memory_(planned.module),
      copies_(planned.module, planned.program),
      numbers_(planned.module, masks_) {}

void UnitOps::begin(std::vector<UnitOp>& ops) {
  ops_ = &ops;
  iotas_.clear();
  halves_.clear();
  stores_.clear();
  read_.clear();
  values_.forget(0);  // of another function
  numbers_.forget(0);
  unread_.begin();
}

void UnitOps::end() {
  unread_.leave_out(*ops_, planned_.uses, [&](int v) {
    const auto it = is_.find(v);
    return it == is_.end() ? v : it->second;
  });
}

UnitOps::Mark UnitOps::enter() {
  memory_.forget();
  copies_.forget();
  values_.wrote();
  return {values_.mark(), numbers_.mark()};
}

void UnitOps::leave(const Mark& mark, bool ends) {
  values_.forget(mark.values);
  numbers_.forget(mark.numbers);
  if (ends) end_memory();
  memory_.forget();
  copies_.forget();
  values_.wrote();
}

/// The op, of what its operands are.
Operation UnitOps::resolved(const Operation& op) const {
  Operation of = op;
  for (int& v : of.operands)
    if (const auto it = is_.find(v); it != is_.end()) v = it->second;
  return of;
}

/// Its place in Program::unit_rows.
int UnitOps::row(const std::string& name) const {
  const auto [it, fresh] =
      planned_.rows.try_emplace(name, static_cast<int>(planned_.program.unit_rows.size()));
  if (fresh) planned_.program.unit_rows.push_back(name);
  return it->second;
}

UnitOp UnitOps::predicated(const std::string& op, std::int64_t times, std::size_t step,
                           int location) const {
  return {.step = step,
          .reads = {},
          .makes = {},
          .rows = {{row(op + " predicated"), times}},
          .location = location};
}

UnitOp UnitOps::select(const std::vector<int>& of, int result, std::size_t step,
                       int location) const {
  UnitOp unit{.step = step, .reads = of, .makes = {result}, .rows = {}, .location = location};
  add_names(unit.reads, of);
  const Type& t = type(result);
  if (t.kind != Type::Kind::vector || t.dtype == DType::boolean) return unit;
  unit.rows.emplace_back(row("arith.select " + std::string(name(t.dtype))),
                         registers_of(t.shape, t.dtype));
  return unit;
}

void UnitOps::add_names(std::vector<int>& to, const std::vector<int>& values) const {
  for (const int v : values) {
    if (const auto it = is_.find(v); it != is_.end()) to.push_back(it->second);
  }
}

/// Only if it is of the result's type.
void UnitOps::is_same(int result, int value) {
  if (value < 0 || type(value).text != type(result).text) return;
  const auto it = is_.find(value);
  is_[result] = it == is_.end() ? value : it->second;
  shared_.insert(is_[result]);
}

std::optional<std::int64_t> UnitOps::constant(int value, const KnownValues& known) const {
  const auto it = is_.find(value);
  return values_.constant(it == is_.end() ? value : it->second, known);
}

void UnitOps::note(const Operation& written, std::size_t step, const KnownValues& planned) {
  const Operation op = resolved(written);
  KnownValues known = planned;
  known.down = [&](int v) { return lines_down_.contains(v); };
  known.packed = [&](int v) { return packed_rows_.contains(v); };
  known.lone_rows = [&](int v) {
    const auto it = lone_rows_.find(v);
    return it == lone_rows_.end() ? LoneRows::none : it->second;
  };
  KnownValues found = known;
  found.constant = [&](int v) { return values_.constant(v, known); };
  found.bits = [&](int v) { return values_.bits(v, known); };
  found.computed = [&](int v) { return masks_.computed(v); };
  found.zero = [&](int v) { return known.constant(v) == 0 || values_.constant(v, known) == 0; };
  found.filled = [&](int v, int dim) { return masks_.filled(v, dim); };
  found.mixed = [&](int v, DType of) { return masks_.mixed(v, of); };
  found.different = [&](int v, DType of) { return registers_.different(v, of); };
  found.fresh = [&](int v) { return numbers_.fresh(v); };
  found.first_lane = [&](int v) { return registers_.first_lane(v, known); };
  UnitOp unit{
      .step = step, .reads = op.operands, .makes = op.results, .rows = {}, .location = op.location};
  // There and back again: the compiler leaves both out.
  const auto casts = [&](const UnitOp& other) {
    return other.makes == op.operands && other.reads.size() == 1 &&
           type(other.reads[0]).text == type(op.results[0]).text;
  };
  constexpr std::ptrdiff_t kNear = 64;
  const auto near = ops_->end() - std::min(kNear, std::ssize(*ops_));
  const auto there =
      op.name.ends_with(".shape_cast") ? std::find_if(near, ops_->end(), casts) : ops_->end();
  const bool back = there != ops_->end();
  if (back) there->rows.clear();
  bool computes = !back;
  if (!back) {
    if (const std::optional<int> same = values_.note(op, known)) {
      computes = false;
      unit.reads.clear();
      if (*same >= 0) unit.reads.push_back(*same);
      is_same(op.results[0], *same);
    }
  }
  if (lies_packed(planned_.module, op, known)) packed_rows_.insert(op.results[0]);
  if (const LoneRows lone = lone_rows(planned_.module, op, known); lone != LoneRows::none)
    lone_rows_[op.results[0]] = lone;
  masks_.note(op, found);
  registers_.note(op, found);
  numbers_.note(op, found);
  if (copies_.waited(op)) computes = false;
  const auto rows = [&] {
    const std::optional<UnitRows> of_copy = copies_.rows(op, found, values_);
    return of_copy ? *of_copy : unit_rows(planned_.module, op, found);
  };
  for (const auto& [name, times] : computes ? rows() : UnitRows())
    unit.rows.emplace_back(row(name), times);
  if (lies_down(planned_.module, op, known)) lines_down_.insert(op.results[0]);
  note_computed(op, unit);
  note_memory(op, found, unit);
  note_iota(op, computes, unit);
  note_halves(op);
  // Views and casts that cost nothing still pass on what others make.
  unread_.note(written, ops_->size());
  if (!unit.rows.empty() || !unit.makes.empty()) ops_->push_back(std::move(unit));
  if (op.results.empty()) values_.wrote();
  // A wait asks how much is copied, not where.
  if (op.name == "tpu.wait_dma2") {
    for (std::size_t i = 1; i < op.operands.size(); ++i) forget_place(written.operands[i]);
  }
  if (written.name != "arith.select" || written.operands.size() != 3 || written.results.size() != 1)
    return;
  for (const std::size_t i : {1, 2}) need_part(written.operands[i], masks_.needed(op, i));
}

/// How much of a vector is no constant, also once it has been cast, and so of what is stored.
void UnitOps::note_computed(const Operation& op, UnitOp& unit) {
  if (op.operands.empty() || type(op.operands[0]).kind != Type::Kind::vector) return;
  const auto it = computed_.find(op.operands[0]);
  const double computed =
      std::min(masks_.computed(op.operands[0]), it == computed_.end() ? 1. : it->second);
  if (op.name.ends_with("store")) unit.computed = computed;
  if (op.name == "arith.truncf" && op.results.size() == 1) computed_[op.results[0]] = computed;
}

/// Of an iota the registers are computed that are compared with what is within them, if nobody
/// else reads it.
void UnitOps::note_iota(const Operation& op, bool computes, UnitOp& unit) {
  if (op.name == "tpu.iota" && op.results.size() == 1) {
    if (!computes && unit.reads.size() == 1) {
      if (const auto it = iotas_.find(unit.reads[0]); it != iotas_.end())
        iotas_[op.results[0]] = Iota(it->second);
    } else if (computes) {
      iotas_[op.results[0]] = {ops_->size(), std::exchange(unit.rows, {})};
    }
    return;
  }
  if (!computes) return;
  for (const int v : op.operands) {
    const auto it = iotas_.find(v);
    if (it == iotas_.end() || it->second.unit >= ops_->size()) continue;
    const auto mixed = op.name == "arith.cmpi" && op.results.size() == 1
                           ? masks_.mixed(op.results[0], type(v).dtype)
                           : std::nullopt;
    auto& rows = (*ops_)[it->second.unit].rows;
    for (const auto& [row, times] : it->second.rows) {
      const auto part = static_cast<std::int64_t>(
          std::ceil(static_cast<double>(times) * mixed.value_or(1) - 1e-9));
      const auto at = std::ranges::find(rows, row, [](const auto& other) { return other.first; });
      if (at != rows.end())
        at->second = std::max(at->second, part);
      else if (part > 0)
        rows.emplace_back(row, part);
    }
  }
}

/// Rows of 16 bits lie in tiles of eight: of an array of more than 128 columns a register that is
/// loaded has two of these side by side, where a product reads two on top of each other.
void UnitOps::note_halves(const Operation& op) {
  const auto is_vector_of_16_bits = [&](int v) {
    const Type& t = type(v);
    return t.kind == Type::Kind::vector && t.shape.rank > 1 && bit_width(t.dtype) == 16;
  };
  if (op.results.size() == 1 && is_vector_of_16_bits(op.results[0]) && !op.operands.empty()) {
    const int from = op.operands[0];
    const Type& read = type(from);
    if (op.name == "vector.load" && read.shape.rank > 1 &&
        read.shape[read.shape.rank - 1] > kLanes) {
      const Type& t = type(op.results[0]);
      halves_[op.results[0]] = {ops_->size(), registers_of(t.shape, t.dtype)};
    } else if (const auto it = halves_.find(from);
               it != halves_.end() && op.name == "vector.shape_cast") {
      halves_[op.results[0]] = Halves(it->second);
    }
  }
  if (op.name != "tpu.matmul") return;
  for (const std::size_t side : {0, 1}) {
    const auto it = halves_.find(op.operands[side]);
    if (it == halves_.end()) continue;
    const Halves found = it->second;
    std::erase_if(halves_, [&](const auto& other) { return other.second.unit == found.unit; });
    if (UnitOp& made = (*ops_)[found.unit]; !made.rows.empty())
      made.rows.emplace_back(row("halves b16"), found.registers);
  }
}

/// What is not loaded since it was stored just before, and stores that nobody needs.
void UnitOps::note_memory(const Operation& op, const KnownValues& known, UnitOp& unit) {
  const auto is_memref = [&](int v) { return type(v).kind == Type::Kind::memref; };
  const auto memref = std::ranges::find_if(op.operands, is_memref);
  if (memref == op.operands.end()) return;
  if (unit.rows.empty() && unit.makes.empty()) {
    note_reads(op, {});
    return memory_.forget();
  }
  const int argument = planned_.roots[static_cast<std::size_t>(*memref)];
  const UnitMemory::Noted noted = memory_.note(op, argument, ops_->size(), known);
  note_reads(op, noted);
  if (noted.forwarded) {
    unit.rows.clear();
    unit.reads.clear();
    if (noted.is) is_same(op.results[0], *noted.is);
  }
  unit.reads.insert(unit.reads.end(), noted.after.begin(), noted.after.end());
  for (const std::size_t store : noted.unread) (*ops_)[store].rows.clear();
}

/// Which arguments are read at all.
void UnitOps::note_reads(const Operation& op, const UnitMemory::Noted& noted) {
  const auto is_memref = [&](int v) { return type(v).kind == Type::Kind::memref; };
  if (noted.forwarded || std::ranges::any_of(op.results, is_memref))
    return;  // a view reads nothing
  for (const int v : op.operands) {
    if (!is_memref(v)) continue;
    const int argument = planned_.roots[static_cast<std::size_t>(v)];
    if (noted.only_stores)
      stores_[argument].push_back(ops_->size());
    else
      read_.insert(argument);
  }
}

/// Nobody reads what a kernel of one step leaves in its own memory, nor what no step reads: words,
/// since factors of products in halves some compilers load again.
void UnitOps::end_memory() {
  const auto one = [](std::int64_t extent) { return extent == 1; };
  if (std::ranges::all_of(planned_.program.grid, one)) {
    std::set<int> own;
    for (const Window& w : planned_.program.scratch) own.insert(w.argument);
    for (const std::size_t store : memory_.unread(own)) (*ops_)[store].rows.clear();
  }
  for (const Window& w : planned_.program.scratch) {
    if (read_.contains(-1) || read_.contains(w.argument) || bit_width(w.type.dtype) < 32) continue;
    for (const std::size_t store : stores_[w.argument]) (*ops_)[store].rows.clear();
  }
}

/// Of what a select throws away nothing is computed, if nobody else reads it.
void UnitOps::need_part(int value, double part) {
  if (part >= 1 || !is_used_once(value)) return;
  constexpr std::ptrdiff_t kNear = 64;
  const auto near = ops_->end() - std::min(kNear, std::ssize(*ops_));
  const auto unit = std::find_if(near, ops_->end(), [&](const UnitOp& other) {
    return other.makes.size() == 1 && other.makes[0] == value;
  });
  if (unit == ops_->end()) return;
  if (unit->rows.empty()) {  // it may be the same in another shape
    const bool passes = unit->reads.size() == 1 &&
                        type(unit->reads[0]).kind == Type::Kind::vector &&
                        registers_of(type(unit->reads[0]).shape, type(unit->reads[0]).dtype) ==
                            registers_of(type(value).shape, type(value).dtype);
    if (passes) need_part(unit->reads[0], part);
    return;
  }
  bool computes = true;
  for (auto& [row, times] : unit->rows) {
    const std::string& name = planned_.program.unit_rows[static_cast<std::size_t>(row)];
    const bool elementwise = name.starts_with("arith.") || name.starts_with("math.");
    if (!elementwise && !name.starts_with("load ")) return;
    computes = computes && elementwise;
    times = std::llround(std::ceil(static_cast<double>(times) * part));
  }
  std::erase_if(unit->rows, [](const auto& row) { return row.second == 0; });
  if (!computes) return;
  for (const int read : unit->reads) need_part(read, part);
}

/// Of a view that nobody but a wait reads nothing is computed: where it begins does not matter.
void UnitOps::forget_place(int value) {
  if (!is_used_once(value)) return;
  constexpr std::ptrdiff_t kNear = 64;
  const auto near = ops_->end() - std::min(kNear, std::ssize(*ops_));
  const auto unit = std::find_if(near, ops_->end(), [&](const UnitOp& other) {
    return other.makes.size() == 1 && other.makes[0] == value;
  });
  if (unit == ops_->end() || type(value).kind == Type::Kind::vector) return;
  unit->rows.clear();
  for (const int read : std::vector<int>(unit->reads)) forget_place(read);
}

}  // namespace tessera::program
