// The kernels inside a lowered program: StableHLO text, or a serialised jax.export artefact.
//
// Each `tpu_custom_call` carries its module in a JSON string, `backend_config`, which both formats
// keep as text; nothing else of them is read. A kernel that is called twice is listed once.
#pragma once

#include <string>
#include <vector>

namespace tessera::pallas {

struct ExtractedKernel {
  std::string module;  ///< bytecode
  std::string config;  ///< backend_config without the module, JSON
  int calls = 1;
};

/// In the order of their first calls; empty if there are none.
std::vector<ExtractedKernel> extract_kernels(const std::string& program);

}  // namespace tessera::pallas
