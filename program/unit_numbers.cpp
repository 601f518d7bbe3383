#include "program/unit_numbers.hpp"

#include <algorithm>
#include <set>

namespace tessera::program {

namespace {

constexpr std::int64_t kTileRows = 8;
constexpr std::int64_t kTileColumns = 128;
constexpr std::int64_t kMostRegisters = 1024;
constexpr int kFalse = 0;
constexpr int kTrue = 1;

/// Of keys that are no op's.
enum Of : std::int64_t { kValue = -1, kSplat = -2, kConstant = -3, kIota = -4 };

std::int64_t parts(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

bool is_elementwise(const Operation& op) {
  return !op.operands.empty() && (op.name.starts_with("arith.") || op.name.starts_with("math.") ||
                                  op.name == "tpu.reciprocal");
}

}  // namespace

std::optional<UnitNumbers::Grid> UnitNumbers::grid_of(const Type& type) const {
  if (type.kind != Type::Kind::vector || !type.known || type.shape.rank < 2) return std::nullopt;
  if (type.dtype != DType::boolean && bit_width(type.dtype) != 32) return std::nullopt;
  const Shape& s = type.shape;
  Grid grid{1, parts(s[s.rank - 2], kTileRows), parts(s[s.rank - 1], kTileColumns)};
  for (int d = 0; d + 2 < s.rank; ++d) grid.outer *= s[d];
  return grid.all() <= kMostRegisters ? std::optional(grid) : std::nullopt;
}

int UnitNumbers::number(Key key) {
  const auto [it, fresh] = seen_.try_emplace(std::move(key), next_);
  if (fresh) {
    ++next_;
    order_.push_back(it->first);
  }
  return it->second;
}

/// Of ops that compute the same of the same.
int UnitNumbers::name(const Operation& op) {
  std::string text = op.name + " " + tessera::name(module_.type(op.results[0]).dtype);
  for (const auto& [attribute, value] : *op.attributes) {
    text += " " + attribute + value.text + std::to_string(value.integer);
    for (const std::int64_t each : value.integers) text += "," + std::to_string(each);
  }
  return names_.try_emplace(std::move(text), static_cast<int>(names_.size())).first->second;
}

std::vector<int> UnitNumbers::numbers_of(int value, const Grid& grid, const KnownValues& known) {
  const auto it = numbers_.find(value);
  const auto all = static_cast<std::size_t>(grid.all());
  if (it != numbers_.end() && it->second.size() == all) return it->second;
  if (known.repeats(value)) {
    const auto constant = known.constant(value);
    return std::vector<int>(all, number(constant ? Key{kConstant, *constant} : Key{kSplat, value}));
  }
  std::vector<int> numbers;
  for (std::size_t i = 0; i < all; ++i)
    numbers.push_back(number({kValue, value, static_cast<std::int64_t>(i)}));
  return numbers;
}

std::vector<int> UnitNumbers::elementwise(const Operation& op, const Grid& grid,
                                          const KnownValues& known) {
  const Shape& shape = module_.type(op.results[0]).shape;
  std::vector<std::vector<int>> operands;
  for (const int v : op.operands) {
    const Type& t = module_.type(v);
    if (t.kind != Type::Kind::vector)
      operands.emplace_back(static_cast<std::size_t>(grid.all()), number({kSplat, v}));
    else if (t.shape == shape && grid_of(t))
      operands.push_back(numbers_of(v, grid, known));
    else
      return {};
  }
  const int of = name(op);
  constexpr UnitMasks::Mask kNone{-1, 0, 0, false};
  const UnitMasks::Mask mask =
      op.name == "arith.cmpi" ? masks_.mask(op.results[0], DType::i32).value_or(kNone) : kNone;
  std::vector<int> numbers;
  for (std::size_t i = 0; i < operands[0].size(); ++i) {
    if (mask.dim >= 0) {
      const auto at = static_cast<std::int64_t>(i);
      const bool rows = mask.dim + 2 == shape.rank;
      const std::int64_t unit = mask.dim + 1 == shape.rank ? kTileColumns : rows ? kTileRows : 1;
      const std::int64_t part = mask.dim + 1 == shape.rank ? at % grid.across
                                : rows                     ? at / grid.across % grid.down
                                                           : -1;
      const std::int64_t begin = part * unit;
      const std::int64_t end = std::min(begin + unit, shape[mask.dim]);
      const bool inside = mask.begin <= begin && end <= mask.end;
      const bool apart = end <= mask.begin || mask.end <= begin;
      if (part >= 0 && (inside || apart)) {
        numbers.push_back(inside != mask.outside ? kTrue : kFalse);
        continue;
      }
    }
    Key key{of};
    for (const auto& operand : operands) key.push_back(operand[i]);
    const auto is = [&](std::size_t which, int number) { return key[which + 1] == number; };
    const auto same_as = [&](std::size_t which) {
      numbers.push_back(static_cast<int>(key[which + 1]));
    };
    const bool of_masks = module_.type(op.results[0]).dtype == DType::boolean && key.size() == 3;
    if (op.name == "arith.select" && key.size() == 4 &&
        (is(0, kTrue) || is(0, kFalse) || key[2] == key[3]))
      same_as(is(0, kFalse) ? 2 : 1);
    else if (of_masks && op.name == "arith.andi" && (is(0, kTrue) || is(1, kFalse)))
      same_as(1);
    else if (of_masks && op.name == "arith.andi" && (is(1, kTrue) || is(0, kFalse)))
      same_as(0);
    else
      numbers.push_back(number(std::move(key)));
  }
  return numbers;
}

std::vector<int> UnitNumbers::broadcast(const Operation& op, const Grid& grid,
                                        const KnownValues& known) {
  const Type& from = module_.type(op.operands[0]);
  const Shape& to = module_.type(op.results[0]).shape;
  if (known.repeats(op.results[0]) || from.kind != Type::Kind::vector || from.shape.rank < 2)
    return {};
  const auto grid_from = grid_of(from);
  if (!grid_from || (grid_from->outer != 1 && grid_from->outer != grid.outer)) return {};
  const bool down = from.shape[from.shape.rank - 2] == 1 && to[to.rank - 2] > 1;
  const bool across = from.shape[from.shape.rank - 1] == 1 && to[to.rank - 1] > 1;
  const std::vector<int> made = numbers_of(op.operands[0], *grid_from, known);
  const int of = name(op);
  std::vector<int> numbers;
  for (std::int64_t o = 0; o < grid.outer; ++o) {
    for (std::int64_t r = 0; r < grid.down; ++r) {
      for (std::int64_t c = 0; c < grid.across; ++c) {
        const std::int64_t at =
            ((grid_from->outer == 1 ? 0 : o) * grid_from->down + (down ? 0 : r)) *
                grid_from->across +
            (across ? 0 : c);
        const int source = made[static_cast<std::size_t>(at)];
        numbers.push_back(down || across ? number({of, down ? 1 : 0, across ? 1 : 0, source})
                                         : source);
      }
    }
  }
  return numbers;
}

/// Down the sublanes, by a constant.
std::vector<int> UnitNumbers::rotated(const Operation& op, const Grid& grid,
                                      const KnownValues& known) {
  const Shape& shape = module_.type(op.results[0]).shape;
  const Attribute* const dim = op.find("dimension");
  const auto by = op.operands.size() == 2 ? known.constant(op.operands[1]) : std::nullopt;
  const bool rows = dim != nullptr && dim->integer == shape.rank - 2;
  if (!rows || !by || op.find("stride") != nullptr || shape[shape.rank - 2] % kTileRows != 0)
    return {};
  const std::int64_t turn =
      (*by % shape[shape.rank - 2] + shape[shape.rank - 2]) % shape[shape.rank - 2];
  const std::vector<int> made = numbers_of(op.operands[0], grid, known);
  const int of = name(op);
  std::vector<int> numbers;
  for (std::int64_t i = 0; i < grid.all(); ++i) {
    const std::int64_t o = i / (grid.down * grid.across);
    const std::int64_t r = i / grid.across % grid.down;
    const auto source = [&](std::int64_t behind) {
      const std::int64_t row = (r - turn / kTileRows - behind + 2 * grid.down) % grid.down;
      return made[static_cast<std::size_t>((o * grid.down + row) * grid.across + i % grid.across)];
    };
    numbers.push_back(turn % kTileRows == 0 ? source(0)
                                            : number({of, turn % kTileRows, source(0), source(1)}));
  }
  return numbers;
}

void UnitNumbers::note(const Operation& op, const KnownValues& known) {
  if (op.results.size() != 1 || !op.regions.empty()) return;
  const int result = op.results[0];
  const Type& to = module_.type(result);
  const auto grid = grid_of(to);
  if (!grid || known.repeats(result)) return;
  for (const int v : op.operands)  // what a rotation by whole registers passes on is not fresh
    if (const auto of = grid_of(module_.type(v))) numbers_of(v, *of, known);
  const int before = next_;
  std::vector<int> numbers;
  if (op.name == "tpu.iota") {
    const std::vector<std::int64_t> dims = program::numbers_of(op, "dimensions");
    if (dims.size() != 1 || dims[0] + 2 < to.shape.rank) return;
    const bool columns = dims[0] + 1 == to.shape.rank;
    for (std::int64_t i = 0; i < grid->all(); ++i)
      numbers.push_back(number(
          {kIota, columns ? 1 : 0, columns ? i % grid->across : i / grid->across % grid->down}));
  } else if (op.name == "vector.shape_cast") {
    const auto from = grid_of(module_.type(op.operands[0]));
    const Shape& s = module_.type(op.operands[0]).shape;
    if (!from || !(*from == *grid) || s[s.rank - 1] != to.shape[to.shape.rank - 1] ||
        s[s.rank - 2] != to.shape[to.shape.rank - 2])
      return;
    numbers = numbers_of(op.operands[0], *grid, known);
  } else if (op.name == "vector.broadcast" && op.operands.size() == 1) {
    numbers = broadcast(op, *grid, known);
  } else if (op.name == "tpu.dynamic_rotate") {
    numbers = rotated(op, *grid, known);
  } else if (is_elementwise(op)) {
    numbers = elementwise(op, *grid, known);
  }
  if (numbers.empty()) return;
  const std::set<int> different(numbers.begin(), numbers.end());
  fresh_[result] = std::ranges::count_if(different, [&](int n) { return n >= before; });
  numbers_[result] = std::move(numbers);
}

std::optional<std::int64_t> UnitNumbers::fresh(int value) const {
  const auto it = fresh_.find(value);
  return it == fresh_.end() ? std::nullopt : std::optional(it->second);
}

void UnitNumbers::forget(std::size_t mark) {
  for (; order_.size() > mark; order_.pop_back()) seen_.erase(order_.back());
}

}  // namespace tessera::program
