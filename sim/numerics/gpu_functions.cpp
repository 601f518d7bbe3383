#include "sim/numerics/gpu_functions.hpp"

#include <cmath>
#include <limits>

#include "sim/numerics/libdevice.hpp"
#include "sim/numerics/mufu.hpp"

namespace tessera {

float GpuFunction<Exp>::apply(float x) { return mufu::ex2(x * 0x1.715476p+0f); }
float GpuFunction<Exp2>::apply(float x) { return mufu::ex2(x); }

float GpuFunction<Erf>::apply(float x) {
  const float size = std::fabs(x);
  const bool large = size >= 0x1.00c1fcp+0f;  // false of NaN
  const float t = large ? size : x * x;
  float p = large ? 0x1.d69874p-14f : 0x1.63d2d4p-14f;
  p = std::fma(p, t, large ? -0x1.5c00b6p-10f : -0x1.ae9a4p-11f);
  p = std::fma(p, t, large ? 0x1.13233ep-7f : 0x1.55abd4p-8f);
  p = std::fma(p, t, large ? -0x1.49b334p-5f : -0x1.b837cep-6f);
  p = std::fma(p, t, large ? 0x1.46aa32p-3f : 0x1.ce315ep-4f);
  p = std::fma(p, t, large ? 0x1.d369f2p-1f : -0x1.812758p-2f);
  p = std::fma(p, t, large ? 0x1.421428p-1f : 0x1.06eba6p-3f);
  const float to = large ? -size : x;
  const float r = std::fma(p, to, to);
  return large ? std::copysign(1.f - mufu::ex2(r), x) : r;
}

float GpuFunction<Tanh>::apply(float x) { return libdevice::tanh_with_subnormals(x); }

float GpuFunction<Rsqrt>::apply(float x) {
  const bool subnormal = std::fabs(x) < std::numeric_limits<float>::min();
  return subnormal ? mufu::rsqrt(x * 0x1p24f) * 0x1p12f : mufu::rsqrt(x);
}

}  // namespace tessera
