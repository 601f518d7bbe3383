// How far a GPU's functions, as Triton's compiler takes them, may be from the right value.
#pragma once

#include <utility>

#include "sim/bounds/error_model.hpp"

namespace tessera::triton {

/// In units of the last place, where that is more than CUDA C++ has (ErrorModel): PTX ISA 8.7's
/// div.full.f32 and sqrt.approx.f32; e^x is ex2.approx.f32 of x log2(e), an exponent of up to 126
/// that is rounded twice.
inline constexpr std::pair<const char*, double> kGpuFunctions[] = {
    {"div", 2}, {"sqrt", 1}, {"exp", 68}};

/// The model of a GPU's build, where it does not say otherwise of these functions.
inline ErrorModel of_gpu(ErrorModel model) {
  const ErrorModel standard;
  for (const auto& [function, ulp] : kGpuFunctions) {
    if (model.states(function) == standard.states(function) &&
        model.ulp_of(function) == standard.ulp_of(function))
      model.set_ulp(function, ulp);
  }
  return model;
}

}  // namespace tessera::triton
