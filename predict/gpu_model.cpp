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
    {"l2_kept", "B"},
    {"l2_bandwidth", "B/s"},
    {"sm_bandwidth", "B/s"},
    {"split_line", "1"},
    {"outside_line", "1"},
    {"hbm_efficiency", "1"},
    {"load_latency", "s"},
    {"dram_latency", "s"},
    {"issue_seconds", "s"},
    {"thread_issue_seconds", "s"},
    {"scalar_seconds", "s"},
    {"thread_latency", "s"},
    {"thread_issue", "s"},
    {"launch_seconds", "s"},
    {"copy_launch_seconds", "s"},
    {"copy_bandwidth", "B/s"},
    {"draw_latency", "s"},
    {"cell_latency", "s"},
    {"clock", "Hz"},
    {"step_latency", "s"},
    {"product_latency", "s"},
    {"contention", "1"},
    {"element_overhead", "1"},
    {"score_overhead", "1"},
    {"product_overhead", "1"},
    {"group_seconds", "s"},
    {"operand_bandwidth", "B/s"},
    {"seconds_per_element", "s"},
    {"seconds_per_fast_function", "s"},
    {"rare_latency", "s"},
    {"rare_element_seconds", "s"},
    {"statistics_element_seconds", "s"},
    {"rare_function_seconds", "s"},
    {"step_cycles", "cycle"},
    {"mma_step_cycles", "cycle"},
    {"mma_step_issue", "cycle"},
    {"arrival_cycles", "cycle"},
    {"wgmma_arrival_cycles", "cycle"},
    {"loop_cycles", "cycle"},
    {"fma_cycles", "cycle"},
    {"left_load_cycles", "cycle"},
    {"right_load_cycles", "cycle"},
    {"turned_load_cycles", "cycle"},
    {"shuffle_cycles", "cycle"},
    {"load_wait", "cycle"},
    {"turned_load_wait", "cycle"},
    {"held_wait", "cycle"},
    {"scored_wait", "cycle"},
    {"mma_cycles", "cycle"},
    {"mma_wait", "cycle"},
    {"mma_load_wait", "1"},
    {"matrix_load_cycles", "cycle"},
    {"piece_cycles", "cycle"},
    {"hand_wait", "cycle"},
    {"handed_cycles", "cycle"},
    {"right_handed_cycles", "cycle"},
    {"right_made_cycles", "cycle"},
    {"made_issue", "cycle"},
    {"made_cycles", "cycle"},
    {"sync_cycles", "cycle"},
    {"mma_sync_cycles", "cycle"},
    {"element_cycles", "cycle"},
    {"half_element_cycles", "cycle"},
    {"fma_element_cycles", "cycle"},
    {"mma_element_cycles", "cycle"},
    {"element_wait", "cycle"},
    {"fast_function_cycles", "cycle"},
    {"exact_function_cycles", "cycle"},
    {"fma_function_cycles", "cycle"},
    {"after_function_cycles", "cycle"},
    {"after_function_wait", "cycle"},
    {"reduction_wait", "cycle"},
    {"reduction_row_wait", "cycle"},
    {"column_cycles", "cycle"},
    {"store_latency", "s"},
    {"store_cycles", "cycle"},
    {"mma_store_cycles", "cycle"},
    {"simt_store_cycles", "cycle"},
    {"quarter_alone", "1"},
    {"fma_store_cycles", "cycle"},
    {"quotient_cycles", "cycle"},
    {"pair_stores", "1"},
    {"single_stores", "1"},
    {"store_bandwidth", "B/s"},
    {"write_bandwidth", "B/s"},
    {"registers_base", "1"},
    {"registers_per_element", "1"},
    {"registers_per_function", "1"},
    {"registers_used", "1"},
    {"registers_besides", "1"},
    {"local_bandwidth", "B/s"},
    {"spill_rounds", "1"},
    {"element_rounds", "1"},
    {"gradient_tiles", "1"},
    {"gradient_registers", "1"},
    {"column_tiles", "1"},
    {"row_tiles", "1"},
    {"tile_spill_cycles", "cycle"},
    {"sm_spread", "1"},
    {"page_seconds", "s"},
    {"page_reuse", "1"},
    {"least_wgmma", "1"},
    {"most_wgmma", "1"},
    {"least_mma_sync", "1"},
    {"most_mma_sync", "1"},
    {"least_fma", "1"},
    {"most_fma", "1"},
    {"least_elementwise", "1"},
    {"most_elementwise", "1"},
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
    const bool rate = known->unit == "B/s" || known->unit == "Hz";
    const double least = rate ? 1 : name.ends_with("efficiency") ? 1e-3 : 0;
    const double most = known->unit == "s" ? 1 : rate || known->unit == "B" ? 1e18 : 1e6;
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
