// Kernels counted without data, for what the report makes of them.
#pragma once

#include <algorithm>
#include <sstream>

#include "cli/registry.hpp"

namespace tessera::cli {

/// Whether kernels are compiled for bf16 (TESSERA_DTYPES): tests that need it return otherwise.
inline bool bf16_built(const Kernels& kernels) {
  const std::vector<DType>& built = kernels.find("matmul").dtypes;
  return std::find(built.begin(), built.end(), DType::bf16) != built.end();
}

/// The counts of a command line's run, without data.
inline Outcome counted(const Kernels& kernels, const std::string& run, const std::string& device,
                       std::int64_t trace_steps) {
  std::istringstream words(run);
  std::string kernel;
  words >> kernel;
  Request request;
  request.device = load_device(device);
  for (std::string word; words >> word;) {
    if (word == "--dtype") {
      words >> word;
      request.dtype = word == "bf16" ? DType::bf16 : DType::f32;
    } else {
      const std::size_t equals = word.find('=');
      request.assignments.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
  }
  request.check = false;
  request.options.dry = true;
  request.options.trace_steps = trace_steps;
  return kernels.find(kernel).run(request);
}

}  // namespace tessera::cli
