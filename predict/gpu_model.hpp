// The constants of the GPU's timeline (predict/gpu_timeline.cpp), as the device's file has them.
#pragma once

#include <cstdint>
#include <string_view>

#include "memory_model/device_spec.hpp"

namespace tessera::predict {

/// A CUDA kernel's code, arguments and tensor maps, which DRAM gives too (90 small kernels on an
/// H100: predict/ACCURACY.md); what products' functions (of scores, of an epilogue) add, and more
/// of FMA chains, which are unrolled.
inline constexpr std::int64_t kCodeBytes = 38'000;
inline constexpr std::int64_t kFunctionsCodeBytes = 38'000;
inline constexpr std::int64_t kUnrolledCodeBytes = 45'000;

class GpuModel {
 public:
  /// Throws SpecError where figures are missing, unknown or in another unit.
  explicit GpuModel(const DeviceSpec& device);
  /// By its name in the file without "model_".
  double operator[](const char* name) const { return device_.model.at(name).value; }

 private:
  const DeviceSpec& device_;
};

/// The same of a device that check_models has passed.
inline double checked_figure(const DeviceSpec& device, const char* name) {
  return device.model.at(name).value;
}

/// Throws SpecError unless the device has all constants of the models that its kind has, or none.
void check_models(const DeviceSpec& device);

}  // namespace tessera::predict
