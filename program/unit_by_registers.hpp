// How much of what code takes between two waits a schedule of its registers says
// (unit_schedule.hpp), and how much slots of units.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "program/program.hpp"
#include "program/unit_costs.hpp"
#include "program/unit_few_rows.hpp"
#include "program/unit_schedule.hpp"
#include "program/unit_tiles.hpp"
#include "program/unit_wide.hpp"

namespace tessera::program {

/// Of an op what a schedule of registers begins with: rows and times, or what its matrix unit
/// takes.
struct ScheduledOp {
  std::vector<std::pair<int, std::int64_t>> rows;
  FewRows::Together put;
  FewRows::Stored stored;  ///< instead of rows
  double product = 0;
  std::optional<UnitSchedule::Product> tiles;  ///< instead
  std::optional<WideProduct> wide;             ///< likewise
  double of_first = 0;  ///< unit of two, a part of a wide product's tile that is left over
  double alone = 0;
  std::int64_t spilled = 0;  ///< registers
  bool spills_sums = false;  ///< of digits, which a schedule has no order of
  std::int64_t packs = 0;    ///< masks, before
  bool copies = false;       ///< or waits for what does
};

/// How much of what a stretch takes between two waits a schedule of its registers says; of the rest
/// units' slots do.
struct ByRegisters {
  double most = 300;  ///< bundles, from which on slots alone do; all below a third of it
  /// Of products in a row on narrow units all where that is more, however much they are, as slots
  /// know of no order, else the mean: registers do not know how the compiler orders them.
  bool mean = false;
  /// Of one product on narrow units, however much it is, all where that is less, as slots know of
  /// no stores beside the passes of few rows, else the mean.
  bool one = false;
  /// Behind it reductions are waited for, in which slots know of no order: all where that is more,
  /// too.
  bool reduced = false;
  /// Of one in the highest precision all where that is more, else none: parts of its sides that do
  /// not fit in registers are stored, which slots alone know of.
  bool one_splits = false;

  /// Of products of one pass after one another each phase is little code, also where all are much.
  ByRegisters(std::size_t phases_of_products, std::size_t phases, bool one_product, bool splits,
              double matrix_units)
      : mean(phases_of_products > 0 && matrix_units == kMostMatrixUnits),
        one(one_product),
        reduced(phases > 2),
        one_splits(splits) {
    constexpr double kOfPhase = 110;
    most = std::max(most, kOfPhase * static_cast<double>(phases_of_products));
  }
  double part(double bundles) const {
    if (mean) return 0.5;
    return std::clamp((most - bundles) / (most - most / 3), 0., 1.);
  }
  /// Of what has a product.
  double part_of_product(double by_slots, double by_registers) const {
    if (one) return by_registers < by_slots || reduced ? 1 : 0.5;
    if (one_splits) return by_registers > by_slots ? 1 : 0;
    if (mean && by_registers > by_slots) return 1;
    return part(by_slots);
  }
};

/// Bundles of some of a stretch's ops, of which slots say `by_slots`. `here`: their numbers;
/// `rows`: the costs of the program's rows, null: none. Copies are scalars' work, by slots unless
/// ends of phases are waited for between them.
double bundles_by_registers(const Program& program, const std::vector<const UnitCost*>& rows,
                            const std::vector<const UnitOp*>& ops,
                            const std::vector<ScheduledOp>& scheduled,
                            const std::vector<std::size_t>& here, const UnitCosts& costs,
                            const ByRegisters& where, double by_slots);

}  // namespace tessera::program
