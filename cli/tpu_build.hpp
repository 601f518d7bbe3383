// The TPU build of a kernel for a request: its module (mosaic/), as the folder of a call
// (pallas/call_directory.hpp) with a Python file that calls it.
//
// The bodies that write modules lie in libraries of their own, one per kernel, which are loaded
// when they are asked for. Errors: not-built where there is none; what the module's writer refuses.
#pragma once

#include <string>

#include "cli/commands.hpp"
#include "mosaic/backend.hpp"
#include "pallas/call_directory.hpp"

namespace tessera::cli {

struct TpuBuild {
  std::string kernel;
  DType dtype = DType::f32;
  mosaic::BuiltModule module;
  BuildInputs inputs;
};
/// `writer`: of the kernel's modules. Unless `fused`, fma() rounds twice.
TpuBuild build_for_tpu(const KernelHandle& kernel, const mosaic::Kernel& writer,
                       const Request& request, bool fused = true);

/// Its call, with the arrays of all devices. `lends`: inputs' bytes are the build's, which outlives
/// the call and its copies.
pallas::CallToRecord call_of(const TpuBuild& build, const DeviceSpec& device, bool lends = false);

struct TpuCall {
  TpuBuild build;
  pallas::CallToRecord call;
  std::vector<std::string> names;  ///< of inputs, then of results
};
/// The call that the TPU build of a kernel is. Loads the kernel's library. Throws InputError,
/// KernelError.
TpuCall tpu_call_of(const KernelHandle& kernel, const Request& request, bool lends = false);

/// `tessera build`: loads the kernel's library, and writes the folder.
int write_tpu_build(const KernelHandle& kernel, const RunArguments& arguments,
                    const BuildArguments& build);

/// A Python module with a function of the kernel's name, which takes JAX arrays. Throws InputError
/// where Python has another use for the kernel's name or an input's.
std::string python_file(const TpuBuild& build);

}  // namespace tessera::cli
