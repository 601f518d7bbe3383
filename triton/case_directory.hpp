// A launch in a folder:
//
//   kernel.generic.mlir   TTIR in generic form, with locations
//   meta.json             kernel, grid, target ("cuda:90"); args, in the order of the signature:
//   name ->
//                         {"constexpr": v} | {"scalar": "i32", "value": v} | {"pointer": "*fp32",
//                         "storage": k, "offset": elements} | {"pointer": null} | {"tuple": [...]};
//                         storages: dtype, elements, and "undefined": true where nothing is written
//                         yet; "enable_fp_fusion": false if it was compiled so
//   in<k>.npy             storage k before the launch; no file: undefined
//   out<k>.npy            storage k after it, where there is something to compare with
//
// bf16 lies as 16-bit integers, fp8 and i1 as bytes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "triton/launch.hpp"

namespace tessera::triton {

struct Case {
  std::unique_ptr<Kernel> kernel;
  Launch launch;
  std::vector<std::optional<Array>> expected;  ///< per storage
  std::string device;                          ///< by name; "" if its target is none that we know
  DType main_dtype = DType::f32;               ///< of the first storage of floats
};

/// True if the folder holds a Triton launch, or the path is of its module.
bool is_case(const std::string& path);
/// Throws InputError, or KernelError[unsupported] where an op is not built.
Case read_case(const std::string& folder, Profile profile = Profile::exact);

}  // namespace tessera::triton
