#include "program/unit_pressure.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace tessera::program {

namespace {

constexpr std::int64_t kVectorRegisters = 64;
constexpr std::int64_t kMasks = 16;

std::int64_t most_times(const UnitOp& op) {
  std::int64_t most = 0;
  for (const auto& [row, times] : op.rows) most = std::max(most, times);
  return most;
}

}  // namespace

Pressure::Pressure(const Program& program, const std::vector<const UnitOp*>& ops,
                   const Phases& phases, const Pushes& pushes)
    : program_(program), ops_(ops), phases_(phases) {
  find_reads();
  find_at_once(pushes);
  find_popped(pushes);
  find_too_many();
  if (pushes.digits) find_sums();
}

void Pressure::find_sums() {
  constexpr double kHeld = 20;  // values of each register, by listings of hashes
  std::set<int> of_many;        // follows from loads of two registers and more
  const auto is_of_many = [&](int v) { return of_many.contains(value(v)); };
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const UnitOp& op = *ops_[i];
    const bool follows =
        (has(op, "load") && most_times(op) > 1) || std::ranges::any_of(op.reads, is_of_many);
    if (follows) of_many.insert(op.makes.begin(), op.makes.end());
    if (follows || phases_.of(i) > 0) continue;
    const double registers = static_cast<double>(std::max<std::int64_t>(1, registers_made(op)));
    const double part = std::max(0., 1 - kVectorRegisters / (kHeld * registers));
    for (const auto& [row, times] : op.rows)
      if (name(row).ends_with(" digit")) too_many_[i].sums += part * static_cast<double>(times);
  }
}

void Pressure::find_too_many() {
  std::unordered_map<int, std::int64_t> live;
  std::set<int> made_masks;
  std::int64_t all = 0;
  std::int64_t masks = 0;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const bool is_mask = at_once_[i] && makes_mask(*ops_[i]);
    std::int64_t& held = is_mask ? masks : all;
    const std::int64_t before = std::max(held, is_mask ? kMasks : kVectorRegisters);
    const bool counts = at_once_[i] || (phases_.of(i) > 0 && !popped_[i]);
    const std::int64_t made = counts ? registers_made(*ops_[i]) : 0;
    for (const int v : ops_[i]->makes) {
      const auto it = last_.find(v);
      if (made > 0 && it != last_.end() && it->second > i) held += live[v] = made;
      if (is_mask) made_masks.insert(v);
    }
    for (const int read : ops_[i]->reads) {
      const int v = value(read);
      const auto it = live.find(v);
      if (it == live.end() || last_.at(v) != i) continue;
      (made_masks.contains(v) ? masks : all) -= it->second;
      live.erase(it);
    }
    const std::int64_t more = std::max<std::int64_t>(0, held - before);
    TooMany found;
    (is_mask ? found.masks : at_once_[i] ? found.at_once : found.behind) = more;
    too_many_.push_back(found);
  }
}

int Pressure::value(int v) const {
  const auto it = is_.find(v);
  return it == is_.end() ? v : it->second;
}

void Pressure::find_reads() {
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const UnitOp& op = *ops_[i];
    for (const int v : op.reads) last_[value(v)] = i;
    if (op.rows.empty() && op.reads.size() == 1 && op.makes.size() == 1)
      is_[op.makes[0]] = value(op.reads[0]);
  }
}

void Pressure::find_at_once(const Pushes& pushes) {
  std::unordered_map<int, std::int64_t> loaded;  ///< registers of what follows from loads
  at_once_.resize(ops_.size());
  std::vector<bool> made_for(ops_.size());
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const UnitOp& op = *ops_[i];
    const bool loads = has(op, "load");
    const std::int64_t made = loads ? most_times(op) : registers_made(op);
    std::int64_t most = loads ? made : 0;
    for (const int v : op.reads) {
      if (const auto it = loaded.find(value(v)); it != loaded.end())
        most = std::max(most, it->second);
    }
    const bool spreads = has(op, "vector.broadcast") || has(op, "vector.shape_cast");
    const bool follows = most > 0 && (!spreads || most >= made);
    at_once_[i] = phases_.of(i) == 0 && made > 0 && !follows;
    const bool each = !op.rows.empty() && !has(op, "tpu.matmul");
    made_for[i] = (each && (follows || phases_.of(i) > 0)) || pushes_odd_row(op, pushes);
    if (!follows) continue;
    for (const int v : op.makes) loaded[v] = std::max(made, most);
  }
  std::set<int> needed;
  for (std::size_t i = ops_.size(); i-- > 0;) {
    const auto is_needed = [&](int v) { return needed.contains(v); };
    const bool was = at_once_[i];
    if (was) at_once_[i] = std::ranges::none_of(ops_[i]->makes, is_needed);
    const bool passes_on = ops_[i]->rows.empty() && std::ranges::any_of(ops_[i]->makes, is_needed);
    if (at_once_[i] || !(made_for[i] || passes_on || was)) continue;
    for (const int v : ops_[i]->reads) needed.insert(value(v));
  }
}

void Pressure::find_popped(const Pushes& pushes) {
  enum class From { product_at_once, product, other };
  std::unordered_map<int, From> from;
  std::vector<std::optional<From>> of(ops_.size());
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    for (const int v : ops_[i]->reads) {
      const auto it = from.find(value(v));
      if (it != from.end()) of[i] = std::max(of[i].value_or(it->second), it->second);
    }
    std::optional<From> makes = of[i];
    if (has(*ops_[i], "tpu.matmul"))
      makes = pops_at_once(*ops_[i], pushes) ? From::product_at_once : From::product;
    else if (ends_phase(program_, *ops_[i]))
      makes = of[i] = From::other;
    if (!makes) continue;
    for (const int v : ops_[i]->makes) from[v] = *makes;
  }
  popped_.resize(ops_.size());
  std::set<int> needed;
  for (std::size_t i = ops_.size(); i-- > 0;) {
    const bool passes_on = ops_[i]->rows.empty();
    const auto is_needed = [&](int v) { return needed.contains(v); };
    const bool follows = of[i] && *of[i] != From::other && !has(*ops_[i], "tpu.matmul");
    popped_[i] = follows && std::ranges::none_of(ops_[i]->makes, is_needed);
    if (popped_[i] && *of[i] == From::product_at_once) at_once_[i] = true;
    if (popped_[i] || passes_on) continue;
    for (const int v : ops_[i]->reads) needed.insert(value(v));
  }
}

/// By listings; registers that are pushed one by one where two could be are popped one by one.
bool Pressure::pops_at_once(const UnitOp& op, const Pushes& pushes) const {
  constexpr double kMuch = 3700;
  const std::int64_t pushed = (registers_made(op) + 1) / 2;
  const bool one_by_one = pushes.pairs && pushed % 2 != 0;
  return pushes.vector_ops > kMuch && has(op, "tpu.matmul pass bf16") && !one_by_one;
}

/// Of one register of rows and an odd number of columns, one of which is alone in its wide unit: by
/// listings each register of weights is made as it is pushed.
bool Pressure::pushes_odd_row(const UnitOp& op, const Pushes& pushes) const {
  std::int64_t passes = 0;
  std::int64_t weights = 0;
  std::int64_t sums = 0;
  for (const auto& [row, times] : op.rows) {
    if (name(row) == "tpu.matmul pass bf16") passes += times;
    if (name(row).starts_with("tpu.matmul weights bf16") &&
        name(row).find(" wide") == std::string::npos)
      weights += times;
    if (name(row) == "tpu.matmul sum bf16") sums += times;
  }
  return pushes.pairs && passes > 0 && passes == weights && sums % 2 != 0;
}

bool Pressure::has(const UnitOp& op, std::string_view prefix) const {
  return std::ranges::any_of(op.rows,
                             [&](const auto& row) { return name(row.first).starts_with(prefix); });
}

bool Pressure::makes_mask(const UnitOp& op) const {
  return std::ranges::any_of(op.rows, [&](const auto& row) {
    return name(row.first).starts_with("arith.cmp") || name(row.first).ends_with(" bool");
  });
}

std::int64_t Pressure::registers_made(const UnitOp& op) const {
  std::int64_t made = 0;
  for (const auto& [row, times] : op.rows) {
    if (name(row).starts_with("load")) return 0;
    if (name(row).ends_with(" digit")) continue;  // of a product, many a register
    const bool computes = name(row).starts_with("arith.") || name(row).starts_with("math.") ||
                          name(row).starts_with("vector.") ||
                          name(row).starts_with("tpu.matmul sum");
    if (computes) made = std::max(made, times);
  }
  return made;
}

Pressure::Pushes pushes_of(const std::vector<const UnitOp*>& ops,
                           const std::vector<const UnitCost*>& rows, const UnitCosts& costs) {
  constexpr auto kMatrix = static_cast<std::size_t>(CoreUnit::mxu);
  constexpr auto kVector = static_cast<std::size_t>(CoreUnit::valu);
  Pressure::Pushes found;
  found.pairs = costs.capacity[kMatrix] == 2;  // two units are twice as wide as four
  const auto digit = costs.rows.find("arith.muli i32 splat digit");
  found.digits = digit != costs.rows.end() && digit->second.slots[kVector] > 0;
  for (const UnitOp* op : ops) {
    for (const auto& [row, times] : op->rows) {
      const UnitCost* const cost = rows[static_cast<std::size_t>(row)];
      if (cost != nullptr) found.vector_ops += cost->slots[kVector] * static_cast<double>(times);
    }
  }
  return found;
}

}  // namespace tessera::program
