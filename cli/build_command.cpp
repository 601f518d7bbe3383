// tessera build: a kernel for another machine.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/tpu_build.hpp"
#include "memory_model/file.hpp"

namespace tessera::cli {

int build_command(const Kernels& kernels, const RunArguments& arguments, const std::string& target,
                  const std::string& folder) {
  if (target != "tpu") {
    throw InputError("bad-usage", "no target '" + target + "': tessera builds modules for tpu",
                     "a CUDA build of kernels is CMake's: README.md, \"Run it on a GPU\"");
  }
  const KernelHandle& kernel = find_kernel(kernels, arguments.kernel);
  const Request request = request_of(kernel, arguments);
  if (request.device.kind != DeviceSpec::Kind::tpu)
    throw InputError("bad-input", request.device.name + " is no TPU", "tessera devices");
  const TpuBuild build = build_for_tpu(kernel, request);
  pallas::write_call(folder, call_of(build, request.device));
  write_file_atomically(folder + "/" + build.kernel + ".py", python_file(build));
  fmt::print("{0}: kernel.mlir, {1}.py and the arrays of a call\n  tessera run {0}\n", folder,
             build.kernel);
  return 0;
}

}  // namespace tessera::cli
