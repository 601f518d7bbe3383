// Profiles: how products of tiles are computed, and in one of them elementary functions. All else
// is exact in each (sim/ops).
//
//   exact              one fused multiply-add per k, in increasing k (sim/ops/dot.hpp)
//   mxu                a TPU's matrix unit: f32 operands are rounded to bf16, one pass
//   mxu:x3, mxu:x6     f32 operands as sums of two or three bf16, three or six passes
//                      (sim/numerics/mxu.hpp)
//   tensorcore:hopper  f16, bf16 and fp8 as Hopper's wgmma (sim/ops/tensor_core.hpp)
//   gpu:hopper         that, and exp, exp2, erf, tanh and rsqrt as the CUDA build has them beside
//                      tensor cores (sim/numerics/gpu_functions.hpp); of a Triton kernel all that
//                      Triton makes for the GPU (sim/numerics/libdevice.hpp, triton/contract.hpp)
#pragma once

#include <cstdint>

namespace tessera {

enum class Profile : std::uint8_t { exact, mxu, mxu_x3, mxu_x6, tensorcore_hopper, gpu_hopper };

inline constexpr Profile kProfiles[] = {
    Profile::exact,     Profile::mxu, Profile::mxu_x3, Profile::mxu_x6, Profile::tensorcore_hopper,
    Profile::gpu_hopper};

constexpr const char* name(Profile profile) {
  switch (profile) {
    case Profile::mxu:
      return "mxu";
    case Profile::mxu_x3:
      return "mxu:x3";
    case Profile::mxu_x6:
      return "mxu:x6";
    case Profile::tensorcore_hopper:
      return "tensorcore:hopper";
    case Profile::gpu_hopper:
      return "gpu:hopper";
    case Profile::exact:
      break;
  }
  return "exact";
}

/// Whether products of f16, bf16 and fp8 are a tensor core's.
constexpr bool on_tensor_cores(Profile profile) {
  return profile == Profile::tensorcore_hopper || profile == Profile::gpu_hopper;
}

/// bf16 products that a product of f32 operands is the sum of; 0 if the profile takes f32 as it is.
constexpr int mxu_passes(Profile profile) {
  switch (profile) {
    case Profile::mxu:
      return 1;
    case Profile::mxu_x3:
      return 3;
    case Profile::mxu_x6:
      return 6;
    default:
      return 0;
  }
}

}  // namespace tessera
