#include "cli/backends.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::cli {

const char* name(BackendKind kind) {
  switch (kind) {
    case BackendKind::reference:
      return "reference";
    case BackendKind::interpret:
      return "interpret";
    case BackendKind::cuda:
      break;
  }
  return "cuda";
}

std::optional<BackendKind> parse_backend(const std::string& text) {
  if (text == "auto") return std::nullopt;
  for (const auto kind : {BackendKind::reference, BackendKind::interpret, BackendKind::cuda}) {
    if (text == name(kind)) return kind;
  }
  const std::vector<std::string> known{"auto", "cuda", "interpret", "reference"};
  throw InputError("bad-usage", "no backend '" + text + "'" + suggest(text, known),
                   "--backend auto, cuda, interpret or reference");
}

const cuda::Backend* cuda_backend() {
  static const cuda::Backend* const backend = []() -> const cuda::Backend* {
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    const std::string module = "lib" + program.filename().string() + "_cuda.so";
    // Beside the program; for tessera itself in its build folder, and installed.
    for (const char* place : {"", "../cuda", "../lib/tessera"}) {
      const auto path = program.parent_path() / place / module;
      if (!std::filesystem::exists(path, error)) continue;
      void* const opened = dlopen(path.c_str(), RTLD_NOW);
      if (opened == nullptr) throw InputError("bad-input", dlerror());
      using Get = const cuda::Backend* (*)();
      const auto get = reinterpret_cast<Get>(dlsym(opened, "tessera_cuda_backend"));
      if (get != nullptr) return get();
    }
    return nullptr;
  }();
  return backend;
}

namespace {
std::string listed(const std::vector<int>& tiles) {
  std::string text;
  for (const int t : tiles) text += (text.empty() ? "" : ",") + std::to_string(t);
  return text;
}
}  // namespace

CudaFit fit_cuda(const char* kernel, DType dtype, const std::vector<int>& asked, bool exact,
                 const std::function<bool(const std::vector<int>&)>& valid) {
  const cuda::Backend* const backend = cuda_backend();
  if (backend == nullptr) return {nullptr, "this program was built without its CUDA kernels"};
  CudaFit first;
  std::string there;
  for (const cuda::Instance& i : backend->instances) {
    if (i.kernel != kernel || i.dtype != dtype) continue;
    there += (there.empty() ? "" : "; ") + listed(i.tiles);
    if (i.tiles == asked && valid(i.tiles)) return {&i, ""};
    if (first.instance == nullptr && !exact && valid(i.tiles)) first.instance = &i;
  }
  if (there.empty())
    return {nullptr, std::string(kernel) + " is not built for CUDA in " + name(dtype)};
  if (first.instance == nullptr)
    first.why = std::string(kernel) + " is built for CUDA with tiles " + there +
                (exact ? ", not " + listed(asked) : ", none of which these sizes allow");
  return first;
}

}  // namespace tessera::cli
