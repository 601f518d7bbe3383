#include "cli/cuda_timing.hpp"

#include <utility>

#include "cli/cuda_instances.hpp"
#include "predict/gpu_code.hpp"
#include "predict/timeline.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::cli {

void add_cuda_timing(const KernelHandle& kernel, const Request& request, const RunResult& result,
                     std::size_t spans, report::RunReport& report) {
  // What has no timeline says why; nothing is compiled for that.
  if (!predict::unmodelled(result.plan, request.dtype).empty())
    return report::add_timeline(report, result, spans);
  const int capability = request.device.compute_capability;
  if (!cuda_target(capability, request.device.title).hopper) {
    report.timeline.emplace().unmodelled =
        "code is read that nvcc makes for Hopper, which " + request.device.name + " is not";
    return;
  }
  if (const std::string why = why_makes_no_cuda(); !why.empty())
    throw InputError("no-backend", "--timing compiler asks nvcc: " + why,
                     "install the CUDA Toolkit, or in Python what packages.txt lists under [nvcc]; "
                     "./tessera builds with it");
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
