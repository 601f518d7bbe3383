#include "program/unit_registers.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "program/unit_shapes.hpp"

namespace tessera::program {

namespace {

/// Elements of a part of a dim.
std::int64_t part_extent(const Shape& shape, int dim) {
  if (dim + 1 == shape.rank) return kLanes;
  return dim + 2 == shape.rank ? kSublanes : 1;
}

bool computes(const Operation& op) {
  return !op.operands.empty() && (op.name.starts_with("arith.") || op.name.starts_with("math.") ||
                                  op.name == "tpu.reciprocal");
}

/// One number for each different list of numbers.
class Numbers {
 public:
  int of(std::vector<std::int64_t> list) {
    return numbers_.try_emplace(std::move(list), static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<std::vector<std::int64_t>, int> numbers_;
};

}  // namespace

std::int64_t UnitRegisters::parts_along(const Shape& shape, int dim) {
  const std::int64_t extent = part_extent(shape, dim);
  return (shape[dim] + extent - 1) / extent;
}

/// Of an operand of the same shape.
UnitRegisters::Parts UnitRegisters::along(int value, int dim, const KnownValues& known) const {
  const Type& t = module_.type(value);
  if (t.kind != Type::Kind::vector || known.repeats(value))
    return Parts(static_cast<std::size_t>(parts_along(t.shape, dim)), 0);
  const auto it = parts_.find(value);
  return it == parts_.end() ? Parts() : it->second[static_cast<std::size_t>(dim)];
}

UnitRegisters::Parts UnitRegisters::selected(const Operation& select, const UnitMasks::Mask& mask,
                                             const KnownValues& known) const {
  const Shape& shape = module_.type(select.results[0]).shape;
  const std::int64_t extent = part_extent(shape, mask.dim);
  const Parts of_true = along(select.operands[1], mask.dim, known);
  const Parts of_false = along(select.operands[2], mask.dim, known);
  const auto at = [](const Parts& parts, std::int64_t i) {
    return parts.empty() ? i : parts[static_cast<std::size_t>(i)];
  };
  Numbers numbers;
  Parts parts;
  for (std::int64_t i = 0; i < parts_along(shape, mask.dim); ++i) {
    const std::int64_t begin = i * extent;
    const std::int64_t end = std::min(begin + extent, shape[mask.dim]);
    const bool inside = mask.begin <= begin && end <= mask.end;
    const bool apart = end <= mask.begin || mask.end <= begin;
    if (!inside && !apart)
      parts.push_back(numbers.of({2, i}));
    else if (inside != mask.outside)
      parts.push_back(numbers.of({1, at(of_true, i)}));
    else
      parts.push_back(numbers.of({0, at(of_false, i)}));
  }
  return parts;
}

void UnitRegisters::note(const Operation& op, const KnownValues& known) {
  if (op.results.size() != 1 || !op.regions.empty()) return;
  const Type& to = module_.type(op.results[0]);
  if (to.kind != Type::Kind::vector || !to.known || to.shape.rank < 1) return;
  note_lane(op, known);
  if (to.shape.rank > 1) note_parts(op, known);
}

void UnitRegisters::note_parts(const Operation& op, const KnownValues& known) {
  const Type& to = module_.type(op.results[0]);
  const int rank = to.shape.rank;
  std::vector<Parts> found(static_cast<std::size_t>(rank));
  const auto same = [&](int dim) {
    return Parts(static_cast<std::size_t>(parts_along(to.shape, dim)), 0);
  };
  if (op.name == "tpu.iota") {
    const std::vector<std::int64_t> dims = numbers_of(op, "dimensions");
    for (int d = 0; d < rank; ++d) {
      if (std::ranges::find(dims, d) == dims.end()) found[static_cast<std::size_t>(d)] = same(d);
    }
  } else if (op.name == "vector.broadcast" && op.operands.size() == 1) {
    const Type& from = module_.type(op.operands[0]);
    if (from.kind != Type::Kind::vector || !from.known) return;
    for (int d = 0; d < rank; ++d) {
      const int of = d - (rank - from.shape.rank);
      const bool repeats = of < 0 || (from.shape[of] == 1 && to.shape[d] > 1);
      found[static_cast<std::size_t>(d)] = repeats               ? same(d)
                                           : from.shape.rank < 2 ? Parts()
                                                                 : along(op.operands[0], of, known);
    }
  } else {
    const auto has_shape = [&](int v) {
      const Type& t = module_.type(v);
      return t.kind == Type::Kind::vector && t.known && t.shape == to.shape;
    };
    if (!computes(op) || !std::ranges::all_of(op.operands, has_shape)) return;
    const auto mask =
        op.name == "arith.select" ? masks_.mask(op.operands[0], to.dtype) : std::nullopt;
    for (int d = 0; d < rank; ++d) {
      if (mask && mask->dim == d) {
        found[static_cast<std::size_t>(d)] = selected(op, *mask, known);
        continue;
      }
      std::vector<Parts> of_operands;
      for (const int v : op.operands) {
        if (!(mask && v == op.operands[0])) of_operands.push_back(along(v, d, known));
      }
      if (std::ranges::any_of(of_operands, &Parts::empty)) continue;
      Numbers numbers;
      for (std::size_t i = 0; i < of_operands[0].size(); ++i) {
        std::vector<std::int64_t> each;
        for (const Parts& p : of_operands) each.push_back(p[i]);
        found[static_cast<std::size_t>(d)].push_back(numbers.of(std::move(each)));
      }
    }
  }
  if (!std::ranges::all_of(found, &Parts::empty)) parts_[op.results[0]] = std::move(found);
}

std::optional<std::int64_t> UnitRegisters::first_lane(int value, const KnownValues& known) const {
  if (known.repeats(value)) return std::nullopt;
  const auto it = first_lanes_.find(value);
  return it == first_lanes_.end() ? 0 : it->second;
}

void UnitRegisters::note_lane(const Operation& op, const KnownValues& known) {
  const int result = op.results[0];
  const Shape& to = module_.type(result).shape;
  if (op.name == "vector.extract_strided_slice") {
    const std::vector<std::int64_t> offsets = numbers_of(op, "offsets");
    const auto from = first_lane(op.operands[0], known);
    if (from && std::ssize(offsets) == to.rank)
      first_lanes_[result] = (*from + offsets.back()) % kLanes;
  } else if (op.name == "vector.broadcast") {
    const Type& from = module_.type(op.operands[0]);
    const bool of_column = from.kind != Type::Kind::vector || from.shape.rank == 0 ||
                           from.shape[from.shape.rank - 1] == 1;
    if (of_column) first_lanes_[result] = std::nullopt;
  } else if (op.name.ends_with(".multi_reduction")) {
    const int last = module_.type(op.operands[0]).shape.rank - 1;
    const std::vector<std::int64_t> dims = numbers_of(op, "reduction_dims");
    if (std::ranges::find(dims, last) != dims.end()) first_lanes_[result] = std::nullopt;
  } else if (op.name.ends_with(".shape_cast")) {
    const bool of_columns = to[to.rank - 1] == 1 || (to.rank == 1 && known.down(op.operands[0]));
    if (of_columns && !first_lane(op.operands[0], known)) first_lanes_[result] = std::nullopt;
  } else if (op.name == "tpu.iota") {
    const std::vector<std::int64_t> dims = numbers_of(op, "dimensions");
    if (std::ranges::find(dims, to.rank - 1) == dims.end()) first_lanes_[result] = std::nullopt;
  } else if (computes(op)) {
    std::optional<std::int64_t> lane;
    for (const int v : op.operands) {
      if (!lane) lane = first_lane(v, known);
    }
    if (lane != 0) first_lanes_[result] = lane;
  }
}

std::int64_t UnitRegisters::different(int value, DType of) const {
  const Shape& shape = module_.type(value).shape;
  const auto it = parts_.find(value);
  if (it == parts_.end()) return registers_of(shape, of);
  std::int64_t all = 1;
  for (int d = 0; d < shape.rank; ++d) {
    const Parts& parts = it->second[static_cast<std::size_t>(d)];
    const auto n = static_cast<std::size_t>(parts_along(shape, d));
    const auto together = static_cast<std::size_t>(
        d + 2 == shape.rank ? register_extent(shape, d, of) / kSublanes : 1);
    std::set<std::vector<int>> registers;
    for (std::size_t i = 0; i < n && !parts.empty(); i += together) {
      const auto begin = parts.begin() + static_cast<std::ptrdiff_t>(i);
      registers.emplace(begin, begin + static_cast<std::ptrdiff_t>(std::min(together, n - i)));
    }
    const std::size_t all_differ = (n + together - 1) / together;
    all *= static_cast<std::int64_t>(parts.empty() ? all_differ : registers.size());
  }
  return all;
}

}  // namespace tessera::program
