// A launch in a folder:
//
//   kernel.generic.mlir   TTIR in generic form, with locations
//   meta.json             kernel, grid, target ("cuda:90"); args, in the order of the signature:
//   name ->
//                         {"constexpr": v} | {"scalar": "i32", "value": v} | {"pointer": "*fp32",
//                         "storage": k, "offset": elements} | {"pointer": null} | {"tuple": [...]};
//                         storages: dtype, elements, and "undefined": true where nothing is written
//                         yet, or [[begin, end], ...], bytes of which that is so;
//                         "enable_fp_fusion": false if it was compiled so. Of a pointer that is for
//                         a part of its storage: "begin", "end", bytes
//   layouts.json          as triton/sectors.hpp reads them, if sectors are counted
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
  std::vector<std::unique_ptr<Ranges>> undefined;
  std::string device;             ///< by name; "" if its target is none that we know
  DType main_dtype = DType::f32;  ///< of the first storage of floats
};

/// True if the folder holds a Triton launch, or the path is of its module.
bool is_case(const std::string& path);
/// Throws InputError, or KernelError[unsupported] where an op is not built.
/// `bounded`: to be run with error bounds.
Case read_case(const std::string& folder, Profile profile = Profile::exact, bool bounded = false);

/// What such a folder is made of.
struct CaseToRecord {
  std::string module;   ///< TTIR in generic form
  std::string layouts;  ///< "" if there are none
  bool fusion = true;
  const Launch* launch = nullptr;  ///< before it runs
};
/// Why a folder cannot hold a launch; "" if it can.
std::string why_not_recorded(const Launch& launch);
/// The files of the folder but its arrays, by name.
std::vector<std::pair<std::string, std::string>> case_files(const CaseToRecord& launch);
/// A storage as in<k>.npy or out<k>.npy has it: lent, or as it is.
Array storage_array(const LaunchStorage& storage);

}  // namespace tessera::triton
