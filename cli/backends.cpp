#include "cli/backends.hpp"

#include <filesystem>

#include "cli/cuda_instances.hpp"
#include "memory_model/file.hpp"
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
    const auto program = std::filesystem::path(program_file()).filename().string();
    const std::string module = beside_program("lib" + program + "_cuda.so");
    return module.empty() ? nullptr : load_cuda(module);
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
  if (backend == nullptr) return {.why = "this program was built without its CUDA kernels"};
  CudaFit first{.backend = backend};
  std::string there;
  for (const cuda::Instance& i : backend->instances) {
    if (i.kernel != kernel || i.dtype != dtype) continue;
    there += (there.empty() ? "" : "; ") + listed(i.tiles);
    if (i.tiles == asked && valid(i.tiles)) return {&i, backend};
    if (first.instance == nullptr && !exact && valid(i.tiles)) first.instance = &i;
  }
  if (there.empty())
    return {.why = std::string(kernel) + " is not built for CUDA in " + name(dtype)};
  if (first.instance == nullptr)
    first.why = std::string(kernel) + " is built for CUDA with tiles " + there +
                (exact ? ", not " + listed(asked) : ", none of which these sizes allow");
  return first;
}

CudaFit made_cuda(const char* kernel, DType dtype, const std::vector<int>& tiles,
                  const cta::Sm& target) {
  const cuda::Backend* const backend = load_cuda(make_cuda(kernel, dtype, tiles, target).path);
  for (const cuda::Instance& i : backend->instances) {
    if (i.kernel == kernel && i.dtype == dtype && i.tiles == tiles) return {&i, backend};
  }
  return {.why = std::string(kernel) + " is in no CUDA source of this program"};
}

}  // namespace tessera::cli
