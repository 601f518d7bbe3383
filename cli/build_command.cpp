// tessera build: a kernel for another machine.
#include "cli/module_commands.hpp"

namespace tessera::cli {

int build_command(const Kernels& kernels, const RunArguments& arguments,
                  const BuildArguments& build) {
  if (build.target != "tpu") {
    throw InputError("bad-usage",
                     "no target '" + build.target + "': tessera builds kernels for tpu",
                     "--target tpu; run --backend cuda has a GPU's");
  }
  return module_commands().build(kernels.find(arguments.kernel), arguments, build);
}

}  // namespace tessera::cli
