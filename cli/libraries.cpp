#include "cli/libraries.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "cli/interface.hpp"
#include "cli/paths.hpp"
#include "memory_model/file.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::cli {

namespace {

// Beside the program, in its installation, else where the loader looks. Only the last goes by the
// run path, and not under ASan, whose own dlopen is the caller then.
std::string found(const std::string& file) {
  namespace fs = std::filesystem;
  const fs::path here = program_folder();
  std::error_code error;
  for (const fs::path& path : {here / file, here / "../lib/tessera" / file}) {
    if (fs::exists(path, error)) return path.string();
  }
  return file;
}

/// A library that would read the program's structs wrongly.
InputError made_of_others(const std::string& file) {
  return {"bad-input", file + " was built of other sources than this program",
          "build both again from one commit, in one folder: ./tessera does, or cmake --build"};
}

}  // namespace

void* symbol_of_library(const std::string& name, const char* symbol) {
  const std::string file = found(name);
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const std::string error = dlerror();
    if (error.starts_with(file + ": cannot open")) return nullptr;
    throw InputError("bad-input", error,
                     "build the program and its libraries again together; your own: with "
                     "-DTESSERA_TPU=ON, or it lacks what libraries of tessera's ask for");
  }
  using Interface = const char* (*)();
  const auto interface = reinterpret_cast<Interface>(dlsym(library, "tessera_interface"));
  if (interface == nullptr || interface() != kInterface) throw made_of_others(file);
  return dlsym(library, symbol);
}

std::string handed_out(const std::string& file) {
  namespace fs = std::filesystem;
  const fs::path name = fs::path(file).filename();
  std::error_code error;
  for (const fs::path& path : {fs::path(program_folder()) / "../share/tessera" / name,
                               fs::path(kInstalledShare) / name, fs::path(kSourceTree) / file}) {
    if (fs::exists(path, error)) return path.lexically_normal().string();
  }
  throw InputError("bad-input", file + " is neither installed nor in the source tree any more",
                   "install tessera again");
}

}  // namespace tessera::cli
