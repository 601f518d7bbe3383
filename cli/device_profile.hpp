// The profile whose elementary functions are those of a device's builds.
#pragma once

#include <optional>
#include <string>

#include "memory_model/device_spec.hpp"
#include "sim/numerics/profile.hpp"

namespace tessera::cli {

/// Of the device's file; nothing if it names none. Throws InputError of a name that is no profile.
std::optional<Profile> functions_profile(const DeviceSpec& device);

/// What --profile names: a profile, or "device", that of the device. Throws InputError.
Profile profile_of(const std::string& text, const DeviceSpec& device);

/// What `tessera show` and `tessera devices` say of a GPU's functions; "" of a TPU's.
std::string functions_line(const DeviceSpec& device);

}  // namespace tessera::cli
