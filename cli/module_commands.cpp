#include "cli/module_commands.hpp"

#include <filesystem>

#include "cli/libraries.hpp"

namespace tessera::cli {

const ModuleCommands& module_commands() {
  using Get = const ModuleCommands* (*)();
  static const Get get = tessera_module_commands != nullptr
                             ? tessera_module_commands
                             : reinterpret_cast<Get>(symbol_of_library("libtessera_modules.so",
                                                                       "tessera_module_commands"));
  if (get == nullptr)
    throw InputError("not-built", "this program runs C++ kernels; modules are tessera's own to run",
                     "./tessera run MODULE compiles what reads them");
  return *get();
}

bool is_module(const std::string& kernel) {
  std::error_code error;
  return kernel.ends_with(".mlirbc") || kernel.ends_with(".mlir") ||
         std::filesystem::exists(kernel + "/kernel.mlirbc", error) ||
         std::filesystem::exists(kernel + "/kernel.mlir", error) ||
         std::filesystem::exists(kernel + "/kernel.generic.mlir", error);
}

}  // namespace tessera::cli
