#include "cli/cuda_timing.hpp"

#include <utility>

#include "cli/cuda_instances.hpp"
#include "predict/gpu_code.hpp"
#include "predict/timeline.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::cli {

std::string why_no_code(const DeviceSpec& device) {
  if (cuda_target(device.compute_capability, device.title).hopper) return "";
  return "code is read that nvcc makes for Hopper, which " + device.name + " is not";
}

void require_nvcc() {
  if (const std::string why = why_makes_no_cuda(); !why.empty())
    throw InputError("no-backend", "--timing compiler asks nvcc: " + why,
                     "install the CUDA Toolkit, or in Python what packages.txt lists under [nvcc]; "
                     "./tessera builds with it");
}

void add_cuda_timing(const KernelHandle& kernel, const Request& request, const RunResult& result,
                     std::size_t spans, report::RunReport& report) {
  // What has no timeline says why; nothing is compiled for that.
  if (!predict::unmodelled(result.plan, request.dtype).empty())
    return report::add_timeline(report, result, spans);
  if (std::string why = why_no_code(request.device); !why.empty()) {
    report.timeline.emplace().unmodelled = std::move(why);
    return;
  }
  require_nvcc();
  std::vector<int> tiles;
  for (const auto& [name, extent] : kernel.describe(request).setting.tiles) tiles.push_back(extent);
  const CudaCode made = compile_cuda(kernel.info.name, request.dtype, tiles);
  predict::ReadCode read = predict::read_cubin(made.cubin);
  if (!read.why.empty())
    throw InputError("no-backend",
                     "what nvcc made of " + std::string(kernel.info.name) + ' ' + read.why);
  read.code.registers = made.registers;
  read.code.local_bytes = made.stack_bytes;
  report::add_timeline(report, result, spans, std::move(read.code));
}

}  // namespace tessera::cli
