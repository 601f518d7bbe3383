#include "program/unit_work.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::program {

void UnitWork::close(const UnitCosts& costs, double matrix_units) {
  constexpr auto kMatrix = static_cast<std::size_t>(CoreUnit::mxu);
  constexpr auto kVector = static_cast<std::size_t>(CoreUnit::valu);
  std::size_t most = 1;
  // The matrix unit that has more passes is done last.
  const double uneven = std::abs(passes[0] - passes[1]);
  const auto units = [&](std::size_t u) { return u == kMatrix ? matrix_units : costs.capacity[u]; };
  const auto by_slots = [&](std::size_t u) {
    if (costs.capacity[u] <= 0) return 0.;
    return (slots[u] + (u == kMatrix ? uneven : 0)) / units(u);
  };
  const double by_place = std::max(multiply, add_or_shift);
  const bool one_place = by_place > by_slots(kVector);
  const auto takes = [&](std::size_t u) {
    return u == kVector && one_place ? by_place : by_slots(u);
  };
  for (std::size_t u = 1; u < kCoreUnits; ++u) {
    if (takes(u) > takes(most)) most = u;
  }
  const bool products = takes(kMatrix) > takes(most);
  for (std::size_t u = 0; u < kCoreUnits; ++u) {
    if (costs.capacity[u] <= 0) continue;
    const double factor = u == kMatrix ? (products ? 1 : costs.product)
                          : u == most  ? (products ? costs.product : 1)
                                       : costs.rest;
    cycles += factor * takes(u);
    if (u == kVector && one_place)
      (multiply > add_or_shift ? weight_of_multiply : weight_of_add) = factor;
    else
      weight[u] = factor / units(u);
    if (u == kMatrix && slots[u] > 0) weight[u] *= 1 + uneven / slots[u];
  }
  const double passes_take = streamed / std::max(1., matrix_units);
  const double least = std::max(passes_take, masks);
  if (cycles > 0 && least > cycles) scale = least / cycles;
  cycles *= scale;
  constexpr double kPass = kCyclesOfPass;
  streams = kPass / std::max(costs.schedules ? costs.schedules->pass : kPass, 1.) * passes_take;
}

std::array<double, kCoreUnits> UnitWork::busy(const UnitCosts& costs) const {
  std::array<double, kCoreUnits> all{};
  for (std::size_t u = 0; u < kCoreUnits; ++u)
    if (costs.capacity[u] > 0) all[u] = slots[u] / costs.capacity[u];
  double& matrix = all[static_cast<std::size_t>(CoreUnit::mxu)];
  matrix = std::max(matrix, streams);
  double& vector = all[static_cast<std::size_t>(CoreUnit::valu)];
  vector = std::max({vector, multiply, add_or_shift});
  return all;
}

}  // namespace tessera::program
