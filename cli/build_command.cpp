// tessera build: a kernel for another machine.
#include <fmt/format.h>

#include "cli/cta_messages.hpp"
#include "cli/cuda_instances.hpp"
#include "cli/module_commands.hpp"
#include "sim/pipeline/cta_operands.hpp"

namespace tessera::cli {

namespace {

/// One instance of a kernel for NVIDIA GPUs, in the user's cache.
int build_cuda(const KernelHandle& kernel, RunArguments arguments) {
  const bool device_given = arguments.device_given;
  if (!device_given) arguments.device = "h100";
  const Request request = request_of(kernel, arguments);
  if (const std::string why = why_makes_no_cuda(); !why.empty())
    throw InputError("no-backend", why);
  Description described = kernel.describe(request);
  const Setting& setting = described.setting;
  const int capability = request.device.compute_capability;
  const cta::Sm& target = device_given && capability > 0
                              ? cuda_target(capability, request.device.title)
                              : cuda_target();
  lay_out(described.plan);
  check_fits_cta(kernel.info.name, described.plan, target);
  std::vector<int> tiles;
  std::string shown;
  for (const auto& s : setting.sizes) shown += fmt::format(" {}={}", s.name, s.value);
  shown += ',';
  for (const auto& [name, extent] : setting.tiles) {
    tiles.push_back(extent);
    shown += fmt::format(" {}={}", name, extent);
  }
  const CudaModule made = make_cuda(kernel.info.name, request.dtype, tiles, target);
  fmt::print("{} {}{}{}: {} registers a thread, {}\n{}\n", kernel.info.name, name(request.dtype),
             shown, target.hopper ? "" : fmt::format(", portable, sm_{}", target.capability),
             made.registers,
             made.cached ? "compiled before" : fmt::format("compiled in {:.1f} s", made.seconds),
             made.path);
  if (const std::string fall = fall_from_tensor_cores(described.plan); !fall.empty())
    fmt::print("warning: {}\n", fall);
  if (made.spilled_bytes > 0)
    fmt::print(
        "warning: {} bytes of a thread find no register and lie in memory: smaller blocks "
        "take less\n",
        made.spilled_bytes);
  return 0;
}

}  // namespace

int build_command(const Kernels& kernels, const RunArguments& arguments,
                  const BuildArguments& build) {
  if (build.target == "cuda") return build_cuda(kernels.find(arguments.kernel), arguments);
  if (build.target != "tpu") {
    throw InputError("bad-usage",
                     "no target '" + build.target + "': tessera builds kernels for cuda and tpu",
                     "--target cuda or tpu");
  }
  if (build.folder.empty())
    throw InputError("bad-usage", "--target tpu writes a folder", "--out FOLDER");
  return module_commands().build(kernels.find(arguments.kernel), arguments, build);
}

}  // namespace tessera::cli
