// Accounting alone: what a run moves, without arithmetic and without data.
//
// The grid is walked run by run of its last dimension. Along a run an index map that is affine in
// that dimension's id (sim/affine_id.hpp) gives bytes and transfers in closed form; any other is
// asked at every step. So the cost is that of the steps before the last dimension, whatever blocks
// hold. Bodies do not run: those that copy by themselves are refused (their specs have arrays in
// HBM or semaphores), and what one allocates in run_scoped is not seen.
#pragma once

#include <memory>

#include "sim/affine_id.hpp"
#include "sim/interpreter.hpp"

namespace tessera {

namespace detail {

/// What a pipelined operand moves.
struct DryOperand {
  std::array<std::int64_t, kMaxRank> index{};
  bool resident = false;
  std::int64_t transfers = 0;
  std::int64_t bytes = 0;
  std::int64_t padded_bytes = 0;
};

/// A run of `steps` steps: at step t the block index + t slope. `renew`: every step is a cell whose
/// blocks come anew. Returns the first step whose block there is not, or -1.
std::int64_t count_run(DryOperand& operand, const OperandPlan& plan, const DeviceSpec& device,
                       const std::int64_t* index, const std::int64_t* slope, std::int64_t steps,
                       bool renew);

/// Throws KernelError[unsupported] if the bytes of the plan are not those of its index maps.
void check_dry(const Plan& plan);

/// What a walk counted.
struct DryCount {
  std::vector<DryOperand> operands;
  std::int64_t steps = 0;
  std::array<int, kMaxGridRank> extent{};
};

template <class S>
class DryWalk {
  using G = typename S::GridType;
  using Operands = decltype(S::operands);
  static constexpr std::size_t kOperands = std::tuple_size_v<Operands>;
  static constexpr int kLast = G::kRank - 1;
  static constexpr bool kEachStepIsACell = G::kParallel == G::kRank;
  template <std::size_t I>
  using OpAt = std::tuple_element_t<I, Operands>;

 public:
  DryWalk(const S& spec, const Plan& plan, StepContext& context)
      : spec_(spec),
        plan_(plan),
        keeps_blocks_(plan.device.keeps_blocks_across_cells()),
        operands_(total_.operands) {
    context.ids = ids_.data();
    operands_.resize(plan.operands.size());
    for (int d = 0; d < G::kParallel; ++d) total_.extent[static_cast<std::size_t>(d)] = count_of(d);
  }

  /// Cells [first, last), by a core that begins with empty blocks.
  void run_cells(std::int64_t first, std::int64_t last) {
    for (DryOperand& o : operands_) o.resident = false;
    if constexpr (kEachStepIsACell) {
      const std::int64_t row = std::get<kLast>(spec_.grid.dims).count;
      for (std::int64_t cell = first; cell < last;) {
        set_cell(cell / row * row);
        const std::int64_t from = cell % row;
        const std::int64_t to = std::min(row, from + (last - cell));
        run(static_cast<int>(from), to - from);
        cell += to - from;
      }
    } else {
      for (std::int64_t cell = first; cell < last; ++cell) {
        set_cell(cell);
        loop<G::kParallel>();
        for (std::size_t i = 0; i < operands_.size(); ++i) {
          if (!keeps_blocks_ || plan_.operands[i].role == Role::out) operands_[i].resident = false;
        }
      }
    }
  }

  const DryCount& total() const { return total_; }

 private:
  /// Of a parallel dimension.
  int count_of(int d) const {
    int count = 0;
    int i = 0;
    std::apply(
        [&](const auto&... dim) {
          const auto look = [&](const auto& each) {
            if constexpr (!std::remove_cvref_t<decltype(each)>::kArbitraryDim) {
              if (i == d) count = each.count;
            }
            ++i;
          };
          (look(dim), ...);
        },
        spec_.grid.dims);
    return count;
  }
  void set_cell(std::int64_t cell) {
    for (int d = G::kParallel - 1; d >= 0; --d) {
      ids_[static_cast<std::size_t>(d)] = static_cast<int>(cell % count_of(d));
      cell /= count_of(d);
    }
  }

  template <int D>
  void loop() {
    const auto& dim = std::get<D>(spec_.grid.dims);
    const int lo = bound_at<G, D>(dim.lo, ids_);
    const int hi = bound_at<G, D>(dim.hi, ids_);
    total_.extent[D] = std::max(total_.extent[D], hi);
    if constexpr (D == kLast) {
      run(lo, hi - lo);
    } else {
      for (ids_[D] = lo; ids_[D] < hi; ++ids_[D]) loop<D + 1>();
    }
    ids_[D] = lo;
  }

  /// `steps` steps of the last dimension, from `first` on.
  void run(int first, std::int64_t steps) {
    if (steps <= 0) return;
    [&]<std::size_t... I>(std::index_sequence<I...>) { (count<I>(first, steps), ...); }
    (std::make_index_sequence<kOperands>{});
    total_.steps += steps;
  }

  template <std::size_t I>
  static constexpr std::size_t kPlace = kPlaceAmongPlans<Operands, I>;

  template <std::size_t I>
  void count(int first, std::int64_t steps) {
    if constexpr (OpAt<I>::kPassed) {
      if constexpr (OpAt<I>::kRole == Role::in || OpAt<I>::kRole == Role::out) {
        const auto& operand = std::get<I>(spec_.operands);
        if (!operand.present) return;
        const auto ids = [&]<std::size_t... D>(std::index_sequence<D...>) {
          return std::tuple{Id<G::kArbitraryDim[D]>{ids_[D]}..., AffineId{first, 1}};
        }
        (std::make_index_sequence<static_cast<std::size_t>(kLast)>{});
        AffineId::left = false;
        const auto index = std::apply(operand.map, ids);
        constexpr bool kRenew = kEachStepIsACell && OpAt<I>::kRole == Role::out;
        const bool renew = kRenew || (kEachStepIsACell && !keeps_blocks_);
        if (AffineId::left) {
          count_each<I>(first, steps, renew);
          return;
        }
        std::array<std::int64_t, kMaxRank> at{};
        std::array<std::int64_t, kMaxRank> slope{};
        for (int d = 0; d < decltype(index)::kRank; ++d) {
          const auto i = static_cast<std::size_t>(d);
          if constexpr (requires { index.along; }) {
            at[i] = index.along[i].value;
            slope[i] = index.along[i].slope;
          } else {
            at[i] = index.index[i];
          }
        }
        check(operands_[kPlace<I>], plan_.operands[kPlace<I>], at.data(), slope.data(), first,
              steps, renew);
      }
    }
  }
  /// Of a map that is not affine.
  template <std::size_t I>
  void count_each(int first, std::int64_t steps, bool renew) {
    const auto& operand = std::get<I>(spec_.operands);
    constexpr std::array<std::int64_t, kMaxRank> kStill{};
    for (std::int64_t t = 0; t < steps; ++t) {
      ids_[kLast] = first + static_cast<int>(t);
      const auto index = with_ids<G, G::kRank>(operand.map, ids_);
      check(operands_[kPlace<I>], plan_.operands[kPlace<I>], index.index, kStill.data(),
            ids_[kLast], 1, renew);
    }
  }
  void check(DryOperand& operand, const OperandPlan& plan, const std::int64_t* index,
             const std::int64_t* slope, int first, std::int64_t steps, bool renew) {
    const std::int64_t bad = count_run(operand, plan, plan_.device, index, slope, steps, renew);
    if (bad < 0) return;
    ids_[kLast] = first + static_cast<int>(bad);
    std::array<std::int64_t, kMaxRank> there{};
    for (int d = 0; d < plan.block.rank; ++d)
      there[static_cast<std::size_t>(d)] = index[d] + bad * slope[d];
    throw KernelError(oob_block(plan, there.data()));
  }

  const S& spec_;
  const Plan& plan_;
  const bool keeps_blocks_;
  DryCount total_;
  std::vector<DryOperand>& operands_;
  std::array<int, kMaxGridRank> ids_{};
};

/// The walk of a finished plan on one device of `cores` cores.
template <class S>
DryCount dry_count(const S& spec, const Plan& plan, StepContext& context, int cores) {
  check_dry(plan);
  DryWalk<S> walk(spec, plan, context);
  const std::int64_t cells = cell_count(spec.grid);
  for (std::int64_t part = 0; part < cores; ++part)
    walk.run_cells(cells * part / cores, cells * (part + 1) / cores);
  context.ids = nullptr;
  return walk.total();
}

}  // namespace detail

}  // namespace tessera
