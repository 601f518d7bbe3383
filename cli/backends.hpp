// Which backend runs a kernel: the interpreter, the CUDA build of its body, or its reference.
//
// Each has a priority; `auto` takes the highest that can run the request and says why not another.
// A backend that was named runs, or its reason why not is an error: nothing falls back unasked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/backend.hpp"
#include "sim/body/cta.hpp"
#include "sim/body/kernel.hpp"

namespace tessera::cli {

enum class BackendKind : std::uint8_t {
  reference,
  interpret,
  cuda
};  ///< by priority, lowest first
const char* name(BackendKind kind);

/// The name of a backend, or `auto`; throws InputError[bad-usage].
std::optional<BackendKind> parse_backend(const std::string& text);

/// The module of CUDA kernels beside this program, or null.
const cuda::Backend* cuda_backend();

/// The instance of a kernel for a request, or why there is none.
struct CudaFit {
  const cuda::Instance* instance = nullptr;
  const cuda::Backend* backend = nullptr;  ///< that has it
  std::string why{};
};
/// `asked`: tile sizes that the user chose, or those of a case. Of these, if `exact`; else the
/// first instance that `valid` accepts will do.
CudaFit fit_cuda(const char* kernel, DType dtype, const std::vector<int>& asked, bool exact,
                 const std::function<bool(const std::vector<int>&)>& valid);
/// An instance that is compiled now, or was for an earlier run (cli/cuda_instances.hpp).
CudaFit made_cuda(const char* kernel, DType dtype, const std::vector<int>& tiles,
                  const cta::Sm& target);

}  // namespace tessera::cli
