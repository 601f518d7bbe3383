// Profiles: how products of tiles are computed. All else is exact in each (sim/ops).
//
//   exact              one fused multiply-add per k, in increasing k (sim/ops/dot.hpp)
//   tensorcore:hopper  f16, bf16 and fp8 as Hopper's wgmma (sim/ops/tensor_core.hpp); the rest
//   exact
//
// Left out so far: a TPU's MXU, which rounds f32 operands to bf16.
#pragma once

#include <cstdint>

namespace tessera {

enum class Profile : std::uint8_t { exact, tensorcore_hopper };

inline constexpr Profile kProfiles[] = {Profile::exact, Profile::tensorcore_hopper};

constexpr const char* name(Profile profile) {
  return profile == Profile::exact ? "exact" : "tensorcore:hopper";
}

}  // namespace tessera
