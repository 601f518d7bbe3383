#include "predict/grid_time.hpp"

#include <algorithm>

#include "predict/gpu_model.hpp"

namespace tessera::predict {

GridTime grid_time(const DeviceSpec& device, const GridWork& work) {
  if (device.kind != DeviceSpec::Kind::gpu || device.model.empty())
    return {.binds = "no figures of " + device.name + " to predict with"};
  if (work.flops_per_second <= 0)
    return {.binds = "no rate of " + device.name + " for these products"};
  const GpuModel model(device);
  const auto sms = static_cast<double>(device.cores);
  const auto programs = static_cast<double>(std::max<std::int64_t>(work.programs, 1));
  // Of the SM with the most programs.
  const std::int64_t most = (work.programs + device.cores - 1) / device.cores;
  const double share = static_cast<double>(most) / programs;
  const auto requested = static_cast<double>(work.requested_bytes);
  const std::pair<double, const char*> limits[] = {
      {static_cast<double>(work.touched_bytes) / (device.hbm_bytes_per_s * model["hbm_efficiency"]),
       "HBM"},
      {requested / model["l2_bandwidth"], "L2"},
      {share * requested / model["sm_bandwidth"], "an SM's loads and stores"},
      {share * static_cast<double>(work.flops) / (work.flops_per_second / sms), "FLOP"}};
  const auto& slowest = *std::ranges::max_element(limits);
  return {model["launch_seconds"] + model["load_latency"] + slowest.first, slowest.second};
}

}  // namespace tessera::predict
