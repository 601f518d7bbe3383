#include "predict/tpu_costs.hpp"

#include <string>

namespace tessera::predict {

namespace {

constexpr double kRegister = 1024;  // elements of 32 bits
constexpr double kTileBytes = 4096;
constexpr double kPassFlops = 2. * 8 * 128 * 128;

constexpr std::size_t at(Cost c) { return static_cast<std::size_t>(c); }

}  // namespace

CostAmounts amounts_of_step(const Plan& plan) {
  CostAmounts a{};
  a[at(Cost::step)] = 1;
  for (const OperandPlan& op : plan.operands) {
    if (!op.present || (op.role != Role::in && op.role != Role::out)) continue;
    a[at(Cost::window)] += 1;
    a[at(Cost::tile)] += static_cast<double>(op.full_padded_bytes) / kTileBytes;
  }
  return a;
}

CostAmounts amounts_of(const Work& work) {
  CostAmounts a{};
  a[at(Cost::element)] = static_cast<double>(work.elements) / kRegister;
  a[at(Cost::transcendental)] = static_cast<double>(work.transcendentals) / kRegister;
  a[at(Cost::pass)] = static_cast<double>(work.matrix_flops) / kPassFlops;
  a[at(Cost::product)] = static_cast<double>(work.products);
  return a;
}

std::optional<TpuCosts> TpuCosts::of(const DeviceSpec& device) {
  const auto complain = [&](const std::string& name, const std::string& what) {
    throw SpecError(device.name + ": figure 'model_" + name + "' " + what);
  };
  TpuCosts costs;
  std::size_t known = 0;
  for (const auto& [name, figure] : device.model) {
    std::string unit = "cycle";
    double* to = nullptr;
    for (std::size_t c = 0; c < kCosts; ++c)
      if (name == std::string("cycles_") + kCostNames[c]) to = &costs.cycles_[c];
    known += to != nullptr ? 1 : 0;
    if (name == "clock") {
      unit = "Hz";
      to = &costs.clock_hz_;
    } else if (name == "cycles_error") {
      unit = "1";
      to = &costs.median_error_;
    }
    // Of listings (predict/tpu_listing.hpp).
    if (name == "branch_delay") continue;
    if (name == "hbm_unit" || name == "copy_unit") continue;
    if (to == nullptr) complain(name, "is not one that tessera knows");
    if (figure.unit != unit) complain(name, "must have the unit " + unit);
    *to = figure.value;
  }
  if (known == 0) return {};
  for (const char* const name : kCostNames) {
    if (!device.model.contains(std::string("cycles_") + name))
      complain(std::string("cycles_") + name, "is missing: a device has all costs or none");
  }
  for (const char* const name : {"clock", "cycles_error"})
    if (!device.model.contains(name)) complain(name, "is missing: costs need it");
  if (costs.clock_hz_ < 1) complain("clock", "is too small");
  return costs;
}

double TpuCosts::seconds_of(const CostAmounts& amounts) const {
  double sum = 0;
  for (std::size_t c = 0; c < kCosts; ++c) sum += seconds(static_cast<Cost>(c), amounts[c]);
  return sum;
}

double TpuCosts::matrix_seconds_of(const CostAmounts& a) const {
  return seconds(Cost::pass, a[at(Cost::pass)]) + seconds(Cost::product, a[at(Cost::product)]);
}

}  // namespace tessera::predict
