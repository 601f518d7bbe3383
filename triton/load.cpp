#include "triton/load.hpp"

#include "program/importer.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::triton {

Module load_module(const std::string& bytes, const std::string& name) {
  Module module = import_module(bytes, name, "Triton module");
  if (module.dialect != "tt") {
    throw InputError("bad-module",
                     name + " is no Triton module: its functions are of " + module.dialect);
  }
  return module;
}

Module load_module_file(const std::string& path) { return load_module(module_bytes(path), path); }

}  // namespace tessera::triton
