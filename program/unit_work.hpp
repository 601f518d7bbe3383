// What ops that share a TPU core's units ask of them, and the cycles of all together
// (unit_count.hpp).
#pragma once

#include <array>
#include <cstdint>

#include "program/unit_costs.hpp"
#include "program/unit_tiles.hpp"

namespace tessera::program {

/// Slots of each unit in a phase, and the cycles of all together.
struct UnitWork {
  std::array<double, kCoreUnits> slots{};
  std::array<double, kCoreUnits> weight{};  ///< cycles of a slot
  double multiply = 0;
  double add_or_shift = 0;
  double weight_of_multiply = 0;
  double weight_of_add = 0;
  double cycles = 0;
  double scale = 1;      ///< of the cycles of all what each op has
  MatrixUnits passes{};  ///< of MXU's slots, where it matters on which unit they are
  double streamed = 0;   ///< bundles at least in which rows pass matrix units, of all together
  double masks = 0;      ///< joined and packed, one a bundle
  double streams = 0;    ///< cycles in which rows pass each of those that have something to do

  void add_passes(const UnitCost& cost, std::int64_t times, const MatrixUnits& on) {
    const double all =
        static_cast<double>(times) * cost.slots[static_cast<std::size_t>(CoreUnit::mxu)];
    for (std::size_t u = 0; u < passes.size(); ++u) passes[u] += all * on[u];
  }
  void add(const UnitCost& cost, std::int64_t n, double share = 1) {
    const double times = share * static_cast<double>(n);
    cycles += times * cost.alone;
    for (std::size_t u = 0; u < kCoreUnits; ++u) slots[u] += times * cost.slots[u];
    multiply += times * cost.multiply;
    add_or_shift += times * cost.add;
  }
  /// Stores and loads of registers that do not fit, and of masks, which become vectors for that.
  void spill(const std::array<double, kCoreUnits>& of) {
    for (std::size_t u = 0; u < kCoreUnits; ++u) slots[u] += of[u];
  }
  double share_of_spill(const std::array<double, kCoreUnits>& of) const {
    double sum = 0;
    for (std::size_t u = 0; u < kCoreUnits; ++u) sum += of[u] * weight[u];
    return scale * sum;
  }
  /// `matrix_units`: of these so many have something to do.
  void close(const UnitCosts& costs, double matrix_units);
  /// For how long each unit has something to do.
  std::array<double, kCoreUnits> busy(const UnitCosts& costs) const;
  double share(const UnitCost& cost, std::int64_t times) const {
    double sum = cost.alone + weight_of_multiply * cost.multiply + weight_of_add * cost.add;
    for (std::size_t u = 0; u < kCoreUnits; ++u) sum += cost.slots[u] * weight[u];
    return scale * static_cast<double>(times) * sum;
  }
};

}  // namespace tessera::program
