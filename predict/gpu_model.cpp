#include "predict/gpu_model.hpp"

#include <algorithm>
#include <iterator>

#include "predict/tpu_listing.hpp"

namespace tessera::predict {

namespace {

struct ModelFigure {
  std::string_view name;
  std::string_view unit;
};
constexpr ModelFigure kFigures[] = {
    {"l2_capacity", "B"},
    {"l2_bandwidth", "B/s"},
    {"sm_bandwidth", "B/s"},
    {"hbm_efficiency", "1"},
    {"load_latency", "s"},
    {"dram_latency", "s"},
    {"issue_seconds", "s"},
    {"launch_seconds", "s"},
    {"step_latency", "s"},
    {"product_latency", "s"},
    {"contention", "1"},
    {"element_overhead", "1"},
    {"product_overhead", "1"},
    {"operand_bandwidth", "B/s"},
    {"seconds_per_element", "s"},
    {"seconds_per_fast_function", "s"},
    {"seconds_per_exact_function", "s"},
    {"simt_efficiency", "1"},
    {"store_latency", "s"},
    {"store_bandwidth", "B/s"},
    {"registers_used", "1"},
    {"registers_spare", "1"},
    {"spill_per_step", "s"},
    {"spill_per_instruction", "s"},
    {"cell_latency", "s"},
    {"sm_spread", "1"},
    {"page_seconds", "s"},
    {"page_reuse", "1"},
};

}  // namespace

GpuModel::GpuModel(const DeviceSpec& device) : device_(device) {
  const auto complain = [&](std::string_view name, const std::string& what) {
    throw SpecError(device.name + ": figure 'model_" + std::string(name) + "' " + what);
  };
  for (const auto& [name, figure] : device.model) {
    const auto* const known = std::ranges::find(kFigures, name, &ModelFigure::name);
    if (known == std::end(kFigures)) complain(name, "is not one that tessera knows");
    if (figure.unit != known->unit)
      complain(name, "must have the unit " + std::string(known->unit));
    // Rates and efficiencies divide; seconds are those of one step.
    const bool divides = known->unit == "B/s" || name.ends_with("efficiency");
    const double least = known->unit == "B/s" ? 1 : divides ? 1e-3 : 0;
    const double most = known->unit == "s" ? 1 : known->unit == "1" ? 1e6 : 1e18;
    if (figure.value < least) complain(name, "is too small");
    if (figure.value > most) complain(name, "is too large");
  }
  for (const ModelFigure& wanted : kFigures) {
    if (!device.model.contains(std::string(wanted.name)))
      complain(wanted.name, "is missing: a model has all of them, or a device has none");
  }
}

void check_models(const DeviceSpec& device) {
  if (device.kind == DeviceSpec::Kind::tpu)
    check_listed_figures(device);
  else if (!device.model.empty())
    static_cast<void>(GpuModel(device));
}

}  // namespace tessera::predict
