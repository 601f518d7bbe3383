#include "cli/device_profile.hpp"

#include <fmt/format.h>

#include "memory_model/device_functions.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::cli {

std::optional<Profile> functions_profile(const DeviceSpec& device) {
  const auto functions = functions_of(device);
  if (!functions) return std::nullopt;
  try {
    return named(kProfiles, functions->profile, "profile");
  } catch (const InputError& error) {
    throw InputError("bad-input", device.origin + ": \"functions\": " + error.what());
  }
}

Profile profile_of(const std::string& text, const DeviceSpec& device) {
  if (text != "device") return named(kProfiles, text, "profile");
  if (const auto profile = functions_profile(device)) return *profile;
  throw InputError("bad-input", "--profile device: " + device.name +
                                    " names no profile of its functions: nobody has modelled them");
}

std::string functions_line(const DeviceSpec& device) {
  if (device.kind != DeviceSpec::Kind::gpu) return "";
  if (const auto profile = functions_profile(device)) {
    return fmt::format("functions of builds for {}: --profile {}, or --profile device\n",
                       device.name, name(*profile));
  }
  return fmt::format("functions of builds for {}: not modelled\n", device.name);
}

}  // namespace tessera::cli
