// Which elementary functions a device's builds take, as its file says:
//
//   "functions": {"profile": "gpu:hopper", "source": "..."}
//
// A profile is a name of sim/numerics/profile.hpp; a device that names none has functions that
// nobody has modelled. It changes no result by itself: the exact profile is the default on every
// device.
#pragma once

#include <optional>
#include <string>

#include "memory_model/device_spec.hpp"

namespace tessera {

struct DeviceFunctions {
  std::string profile;
  std::string source;
};

/// Nothing where the device's file has none. Throws SpecError of another form.
std::optional<DeviceFunctions> functions_of(const DeviceSpec& device);

}  // namespace tessera
