#include "pallas/load.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "pallas/paths.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::pallas {

namespace {

using Import = void (*)(const std::string&, Module&, std::string&);

Import importer() {
  static const Import import = [] {
    std::error_code error;
    const bool built = std::filesystem::exists(kMlirModule, error);
    void* const module = dlopen(built ? kMlirModule : kInstalledMlirModule, RTLD_NOW | RTLD_LOCAL);
    return module == nullptr ? nullptr
                             : reinterpret_cast<Import>(dlsym(module, "tessera_import_mosaic"));
  }();
  if (import == nullptr) {
    throw InputError("bad-input",
                     "this tessera was built without MLIR 22, which reads Mosaic modules",
                     "apt-get install libmlir-22-dev llvm-22-dev, then build again");
  }
  return import;
}

}  // namespace

const Function* Module::function(const std::string& name) const {
  for (const Function& f : functions) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

Module load_module(const std::string& bytes, const std::string& name) {
  Module module;
  std::string error;
  if (bytes.empty()) throw InputError("bad-module", name + " is empty");
  importer()(bytes, module, error);
  if (!error.empty()) throw InputError("bad-module", name + " is no Mosaic module: " + error);
  if (module.functions.empty())
    throw InputError("bad-module", name + " is no Mosaic module: it holds no function");
  if (module.version < kOldestVersion || module.version > kNewestVersion) {
    throw InputError("bad-module",
                     name + " has stable_mosaic.version " + std::to_string(module.version) +
                         "; this tessera reads " + std::to_string(kOldestVersion) + " to " +
                         std::to_string(kNewestVersion),
                     module.version > kNewestVersion
                         ? "update tessera, or lower with an older JAX (jax.export pins version 11)"
                         : "lower it with JAX 0.9 or newer");
  }
  return module;
}

Module load_module_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError("bad-input", "cannot read " + path);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return load_module(bytes.str(), path);
}

}  // namespace tessera::pallas
