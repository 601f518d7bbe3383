#include "pallas/load.hpp"

#include "program/importer.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::pallas {

Module load_module(const std::string& bytes, const std::string& name) {
  Module module = import_module(bytes, name, "Mosaic module");
  if (module.dialect != "stable_mosaic")
    throw InputError("bad-module",
                     name + " is no Mosaic module: its functions are of " + module.dialect);
  if (module.version < kOldestVersion || module.version > kNewestVersion) {
    throw InputError("bad-module",
                     name + " has stable_mosaic.version " + std::to_string(module.version) +
                         "; this tessera reads " + std::to_string(kOldestVersion) + " to " +
                         std::to_string(kNewestVersion),
                     module.version > kNewestVersion
                         ? "update tessera, or lower with an older JAX (jax.export pins version 11)"
                         : "lower it with a newer JAX");
  }
  return module;
}

Module load_module_file(const std::string& path) { return load_module(module_bytes(path), path); }

}  // namespace tessera::pallas
