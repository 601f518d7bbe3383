#include "program/unit_masks.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

namespace tessera::program {

namespace {

constexpr std::int64_t kLast = std::numeric_limits<std::int32_t>::max();

std::int64_t attribute_of(const Operation& op, const char* name) {
  const Attribute* a = op.find(name);
  if (a == nullptr) return 0;
  return a->integers.empty() ? a->integer : a->integers.front();
}

}  // namespace

double UnitMasks::computed(int value) const {
  const auto it = computed_.find(value);
  return it == computed_.end() ? 1 : it->second;
}

std::int64_t UnitMasks::filled(int value, int dim) const {
  const auto it = filled_.find(value);
  return it == filled_.end() ? module_.type(value).shape[dim]
                             : it->second[static_cast<std::size_t>(dim)];
}

void UnitMasks::note_filled(const Operation& select, const KnownValues& known) {
  const bool behind = known.zero(select.operands[2]);  // else what the mask is true for
  if (!behind && !known.zero(select.operands[1])) return;
  const int result = select.results[0];
  const int other = select.operands[behind ? 1 : 2];
  const Type& to = module_.type(result);
  std::vector<std::int64_t> ends;
  for (int d = 0; d < to.shape.rank; ++d) ends.push_back(filled(other, d));
  if (const auto m = mask(select.operands[0], to.dtype)) {
    const bool within = m->outside != behind;  // the mask's range is what is not 0
    const auto dim = static_cast<std::size_t>(m->dim);
    if (within)
      ends[dim] = std::clamp<std::int64_t>(m->end, 0, ends[dim]);
    else if (m->end >= to.shape[m->dim])
      ends[dim] = std::clamp<std::int64_t>(m->begin, 0, ends[dim]);
  }
  filled_[result] = std::move(ends);
}

std::optional<double> UnitMasks::mixed(int value, DType of) const {
  const auto found = mask(value, of);
  if (!found) return std::nullopt;
  return parts(*found, module_.type(value).shape, of).mixed;
}

double UnitMasks::needed(const Operation& select, std::size_t operand) const {
  const Type& to = module_.type(select.results[0]);
  if (to.kind != Type::Kind::vector) return 1;
  const auto found = mask(select.operands[0], to.dtype);
  if (!found) return 1;
  const Parts p = parts(*found, to.shape, to.dtype);
  return operand == 1 ? p.inside : p.outside;
}

UnitMasks::Parts UnitMasks::parts(const Mask& mask, const Shape& shape, DType dtype) const {
  const std::int64_t extent = register_extent(shape, mask.dim, dtype);
  const std::int64_t length = shape[mask.dim];
  const std::int64_t begin = std::clamp<std::int64_t>(mask.begin, 0, length);
  const std::int64_t end = std::clamp<std::int64_t>(mask.end, begin, length);
  const std::int64_t registers = (length + extent - 1) / extent;
  const auto all = static_cast<double>(registers);
  std::set<std::int64_t> mixed;
  for (const std::int64_t edge : {begin, end})
    if (edge % extent != 0 && edge < length) mixed.insert(edge / extent);
  const std::int64_t touched = end == begin ? 0 : (end - 1) / extent - begin / extent + 1;
  const double of_mixed = static_cast<double>(mixed.size()) / all;
  const double touching = static_cast<double>(touched) / all;
  const double others = 1 - touching + of_mixed;
  return {of_mixed, mask.outside ? others : touching, mask.outside ? touching : others};
}

std::optional<UnitMasks::Mask> UnitMasks::compared(const Operation& op,
                                                   const KnownValues& known) const {
  const auto it = rising_.find(op.operands[0]);
  const auto with = known.constant(op.operands[1]);
  if (it == rising_.end() || !with) return std::nullopt;
  const auto [dim, first, falls] = it->second;
  const std::int64_t at = falls ? first - *with : *with - first;  // the index that has this number
  constexpr std::array<std::int64_t, 6> kFromBehind{0, 1, 4, 5, 2, 3};  // < is >, <= is >=
  const std::int64_t predicate = attribute_of(op, "predicate");
  if (predicate < 0 || predicate >= std::ssize(kFromBehind)) return std::nullopt;
  switch (falls ? kFromBehind[static_cast<std::size_t>(predicate)] : predicate) {
    case 0:
      return Mask{dim, at, at + 1, false};
    case 1:
      return Mask{dim, at, at + 1, true};
    case 2:
      return Mask{dim, 0, at, false};
    case 3:
      return Mask{dim, 0, at + 1, false};
    case 4:
      return Mask{dim, at + 1, kLast, false};
    case 5:
      return Mask{dim, at, kLast, false};
    default:
      return std::nullopt;
  }
}

void UnitMasks::note_rising(const Operation& op, const KnownValues& known) {
  for (const std::size_t i : {0, 1}) {
    const auto it = rising_.find(op.operands[i]);
    const auto by = known.constant(op.operands[1 - i]);
    if (it == rising_.end() || !by) continue;
    const auto [dim, first, falls] = it->second;
    if (op.name == "arith.addi")
      rising_[op.results[0]] = {dim, first + *by, falls};
    else if (op.name == "arith.subi")
      rising_[op.results[0]] =
          i == 0 ? Rising{dim, first - *by, falls} : Rising{dim, *by - first, !falls};
    else if (op.name == "arith.muli" && (*by == 1 || *by == -1))
      rising_[op.results[0]] = {dim, *by * first, (*by < 0) != falls};
    return;
  }
}

void UnitMasks::note(const Operation& op, const KnownValues& known) {
  if (op.results.size() != 1 || !op.regions.empty()) return;
  const int result = op.results[0];
  const Type& to = module_.type(result);
  if (to.kind != Type::Kind::vector || !to.known) return;
  const std::string& n = op.name;
  if (n == "tpu.iota") {
    rising_[result] = {static_cast<int>(attribute_of(op, "dimensions")), 0};
    return;
  }
  if (n == "arith.constant" || known.repeats(result)) {
    computed_[result] = 0;
    return;
  }
  if (!n.starts_with("arith.") && !n.starts_with("math.")) return;
  // What follows from zeros is computed all the same, but for other selects.
  double most = std::ranges::all_of(op.operands, [&](int v) { return computed(v) == 0; }) ? 0 : 1;
  if (n == "arith.cmpi") {
    if (const auto mask = compared(op, known)) masks_.emplace(result, *mask);
  } else if (op.operands.size() == 2) {
    note_rising(op, known);
  } else if (n == "arith.select") {
    note_filled(op, known);
    if (const auto found = mask(op.operands[0], to.dtype)) {
      const Parts p = parts(*found, to.shape, to.dtype);
      const double selected = computed(op.operands[1]);
      const auto rest = rest_.find(op.operands[1]);
      const bool same_rest = rest != rest_.end() && rest->second == op.operands[2];
      most = std::min(1.0, std::max({same_rest ? p.mixed * selected : p.mixed, p.inside * selected,
                                     p.outside * computed(op.operands[2])}));
      if (bit_width(to.dtype) == 8) most = 1;  // it goes through memory
      if (computed(op.operands[2]) == 0 && !found->outside && most < 1)
        rest_[result] = op.operands[2];
    }
  }
  computed_[result] = most;
}

}  // namespace tessera::program
