#include "program/unit_copies.hpp"

#include <algorithm>
#include <string>

namespace tessera::program {

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
  const bool is_near = of.space != "hbm" && of.space != "any";
  if (at_begin || (constant && is_near && !moves_on)) return {};
  UnitRows rows{{constant || semaphores ? "tpu.memref_slice" : "tpu.memref_slice dynamic", 1}};
  if (shifts > 0) rows.emplace_back("scalar", shifts);
  return rows;
}

UnitRows UnitCopies::of_start(const Operation& op, UnitValues& values) const {
  UnitRows rows{{op.name, 1}};
  for (const int v : op.operands) {
    const Type& t = type(v);
    if (t.kind != Type::Kind::memref || !t.semaphore.empty()) continue;
    const bool far = t.space == "hbm" || t.space == "any";
    const bool again = !values.is_first("check %" + std::to_string(values.name_of(v)));
    rows.emplace_back(op.name + (far ? " hbm" : " vmem") + (unsure_.contains(v) ? " unsure" : "") +
                          (again ? " again" : ""),
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
  if (is_view(op)) return false;
  // Constants, and loads of scalars.
  if (op.regions.empty() && !op.results.empty() && std::ranges::all_of(op.results, is_scalar))
    return false;
  const int before = waited_;
  waited_ = op.name == "tpu.wait_dma2" && !op.operands.empty() ? op.operands[0] : -1;
  return waited_ >= 0 && waited_ == before;
}

}  // namespace tessera::program
