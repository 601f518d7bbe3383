#include "program/unit_copies.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "program/unit_shapes.hpp"

namespace tessera::program {

namespace {

bool is_far(const Type& t) { return t.space == "hbm" || t.space == "any"; }

/// A tpu7x has arrays of 16 bits so in VMEM; in HBM tiles have eight rows. Where a tile is as wide
/// as the array both are in the same order.
bool lies_in_tiles_of_16_rows(const Type& array) {
  const int rank = array.shape.rank;
  return !is_far(array) && bit_width(array.dtype) == 16 && rank > 1 &&
         array.shape[rank - 1] > kLanes && array.shape[rank - 2] > kSublanes;
}

}  // namespace

bool UnitCopies::is_view(const Operation& op) const {
  return op.results.size() == 1 && !op.operands.empty() &&
         type(op.results[0]).kind == Type::Kind::memref &&
         type(op.operands[0]).kind == Type::Kind::memref;
}

/// Of a pipeline's window too: it is in one buffer and then in the other.
bool UnitCopies::moves(int memref) const {
  const auto one = [](std::int64_t extent) { return extent == 1; };
  return moving_.contains(memref) ||
         (!std::ranges::all_of(program_.grid, one) &&
          std::ranges::any_of(program_.operands, [&](const Window& w) {
            return w.argument == memref && !w.whole && !w.any && w.slots > 1;
          }));
}

UnitRows UnitCopies::of_slice(const Operation& op, const KnownValues& known, UnitValues& values) {
  const int base = op.operands[0];
  const Type& of = type(base);
  const bool semaphores = !of.semaphore.empty();
  std::int64_t shifts = 0;
  bool at_begin = true;
  bool constant = true;
  bool within = true;
  std::int64_t stride = 1;
  for (int d = of.shape.rank - 1; d >= 0; --d) {
    const auto operand = static_cast<std::size_t>(d) + 1;
    if (operand >= op.operands.size()) continue;
    const int index = op.operands[operand];
    const auto at = known.constant(index);
    constant = constant && at.has_value();
    at_begin = at_begin && at == 0;
    if (!at && !semaphores &&
        values.is_first("shift %" + std::to_string(values.name_of(index)) + " by " +
                        std::to_string(stride * bit_width(of.dtype))))
      ++shifts;
    if (!at) {
      const auto bits = known.bits(index);
      within = within && bits &&
               (std::int64_t{1} << *bits) - 1 + type(op.results[0]).shape[d] <= of.shape[d];
    }
    stride *= of.shape[d];
  }
  const bool moves_on = moves(base);
  if (!constant || moves_on) moving_.insert(op.results[0]);
  if (!within || unsure_.contains(base)) unsure_.insert(op.results[0]);
  const bool is_near = !is_far(of);
  if (at_begin || (constant && is_near && !moves_on)) return {};
  UnitRows rows{{constant || semaphores ? "tpu.memref_slice" : "tpu.memref_slice dynamic", 1}};
  if (shifts > 0) rows.emplace_back("scalar", shifts);
  return rows;
}

int UnitCopies::array_of(int memref) const {
  const auto it = arrays_.find(memref);
  return it == arrays_.end() ? memref : it->second;
}

void UnitCopies::note_vectors(const Operation& op) {
  const auto is_vector = [&](int v) { return type(v).kind == Type::Kind::vector; };
  if (!std::ranges::any_of(op.operands, is_vector) && !std::ranges::any_of(op.results, is_vector))
    return;
  for (const int v : op.operands) {
    if (type(v).kind != Type::Kind::memref) continue;
    touched_.insert(array_of(v));
    if (op.results.empty()) stored_.insert(array_of(v));
  }
}

UnitRows UnitCopies::of_start(const Operation& op, UnitValues& values) const {
  UnitRows rows{{op.name, 1}};
  std::vector<int> ends;
  std::ranges::copy_if(op.operands, std::back_inserter(ends), [&](int v) {
    return type(v).kind == Type::Kind::memref && type(v).semaphore.empty();
  });
  const bool is_behind_vectors = !ends.empty() && (stored_.contains(array_of(ends.front())) ||
                                                   touched_.contains(array_of(ends.back())));
  const std::string behind = is_behind_vectors ? " behind vectors" : "";
  if (std::ranges::any_of(ends, [&](int v) { return lies_in_tiles_of_16_rows(type(array_of(v))); }))
    rows.emplace_back(op.name + " other tiles" + behind, 1);
  for (const int v : ends) {
    const Type& t = type(v);
    const bool again = !values.is_first("check %" + std::to_string(values.name_of(v)));
    rows.emplace_back(op.name + (is_far(t) ? " hbm" : " vmem") +
                          (unsure_.contains(v) ? " unsure" : "") + (again ? " again" : behind),
                      1);
  }
  return rows;
}

std::optional<UnitRows> UnitCopies::rows(const Operation& op, const KnownValues& known,
                                         UnitValues& values) {
  if (op.name == "tpu.enqueue_dma") return of_start(op, values);
  if (!is_view(op)) return std::nullopt;
  if (op.name == "tpu.memref_slice") return of_slice(op, known, values);
  if (moves(op.operands[0])) moving_.insert(op.results[0]);
  if (unsure_.contains(op.operands[0])) unsure_.insert(op.results[0]);
  return std::nullopt;
}

bool UnitCopies::waited(const Operation& op) {
  const auto is_scalar = [&](int v) {
    return type(v).kind == Type::Kind::scalar || type(v).kind == Type::Kind::index;
  };
  if (is_view(op)) {
    arrays_[op.results[0]] = array_of(op.operands[0]);
    return false;
  }
  note_vectors(op);
  // Constants, and loads of scalars.
  if (op.regions.empty() && !op.results.empty() && std::ranges::all_of(op.results, is_scalar))
    return false;
  const int before = waited_;
  waited_ = op.name == "tpu.wait_dma2" && !op.operands.empty() ? op.operands[0] : -1;
  if (op.name == "tpu.wait_dma2" || op.name == "tpu.sem_wait") forget_vectors();
  return waited_ >= 0 && waited_ == before;
}

}  // namespace tessera::program
