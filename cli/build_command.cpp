// tessera build: a kernel for another machine.
#include "cli/module_commands.hpp"

namespace tessera::cli {

int build_command(const Kernels& kernels, const RunArguments& arguments, const std::string& target,
                  const std::string& folder) {
  if (target != "tpu") {
    throw InputError("bad-usage", "no target '" + target + "': tessera builds kernels for tpu",
                     "--target tpu; run --backend cuda has a GPU's");
  }
  return module_commands().build(kernels.find(arguments.kernel), arguments, folder);
}

}  // namespace tessera::cli
